package plan

import "k8s.io/apimachinery/pkg/runtime"

// pruning is what is to become of fields that the schema does not know.
type pruning uint8

const (
	prune pruning = iota
	// keep leaves them alone, and goes on with those that it knows.
	keep
	// none: nothing is pruned here, nor below.
	none
)

// Fill does what upstream's Default does to an object: it fills in what is missing, or null where null is not allowed, and drops
// nothing. It is not ok, and nothing is done, where the plan does not cover that.
func (n *Node) Fill(object map[string]any) (ok bool) {
	if n == nil || n.odd {
		return false
	}
	c := completer{}
	c.object(n, object, none, true)
	return true
}

// Clean tells whether Prune, PruneNonNullableNullsWithoutDefaults and Coerce would leave an object as it is. It changes nothing. plain tells
// whether Coerce would leave metadata as it is; that of the object itself is not looked at.
func (n *Node) Clean(object map[string]any, plain func(metadata any) bool) bool {
	if n == nil {
		return false
	}
	c := completer{dry: true, plain: plain}
	c.object(n, object, prune, true)
	return !c.found
}

type completer struct {
	// dry: nothing is changed, and there are no defaults; found tells whether there was something to do.
	dry, found bool
	plain      func(metadata any) bool
}

func isMeta(name string) bool { return name == "apiVersion" || name == "kind" || name == "metadata" }

func (c *completer) value(n *Node, v any, p pruning) {
	if c.found || n == nil && p != prune {
		return
	}
	switch v := v.(type) {
	case map[string]any:
		c.object(n, v, p, false)
	case []any:
		c.list(n, v, p)
	}
}

// object completes an object. At a place of which the schema says nothing (n is nil), everything would be pruned.
func (c *completer) object(n *Node, object map[string]any, p pruning, root bool) {
	if n == nil {
		c.found = c.found || len(object) > 0
		return
	}
	if p == prune && n.preserve {
		p = keep
	}
	if c.dry && n.embedded && !root && !c.isPlain(object) {
		c.found = true
		return
	}
	for name, v := range object {
		child, known := n.field(name)
		below := p
		switch {
		case p != none && (root || n.embedded) && isMeta(name):
			below = none
		case !known && p == prune:
			c.found = true
			continue
		case !known:
			continue
		case p == keep:
			below = prune
		}
		if v == nil && child != nil && !child.nullable {
			c.null(child, object, name)
			continue
		}
		c.value(child, v, below)
	}
	if c.dry {
		return
	}
	for _, name := range n.defaults {
		if _, there := object[name]; !there {
			c.fill(n.fields[name], object, name)
		}
	}
}

// isPlain tells whether an object within another one has what is there in all objects as it is stored.
func (c *completer) isPlain(object map[string]any) bool {
	for name, v := range object {
		_, text := v.(string)
		if isMeta(name) && (name == "metadata" && (c.plain == nil || !c.plain(v)) || name != "metadata" && !text) {
			return false
		}
	}
	return true
}

// null completes a null that is not allowed. One that has no default is to be dropped, but not by Fill.
func (c *completer) null(child *Node, object map[string]any, name string) {
	switch {
	case child.fallback == nil:
		c.found = c.dry
	case !c.dry:
		c.fill(child, object, name)
	}
}

// fill writes a default, and the defaults within it. What is in it was pruned when the schema was read, but for nulls, which upstream
// does not look for any more.
func (c *completer) fill(child *Node, object map[string]any, name string) {
	object[name] = c.filled(child)
}

func (c *completer) filled(n *Node) any {
	v := runtime.DeepCopyJSONValue(n.fallback)
	c.value(n, v, none)
	return v
}

func (c *completer) list(n *Node, list []any, p pruning) {
	var item *Node
	if n != nil {
		item = n.item
		if p == prune && n.preserve {
			p = keep
		}
	}
	for i, v := range list {
		if v == nil && item != nil && !item.nullable && item.fallback != nil && !c.dry {
			list[i] = c.filled(item)
			continue
		}
		c.value(item, v, p)
	}
}
