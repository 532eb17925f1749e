package plan

import "k8s.io/apimachinery/pkg/runtime"

// pruning is what becomes of fields that the schema does not know.
type pruning uint8

const (
	prune pruning = iota
	// keep leaves them alone, and goes on with those that it knows.
	keep
	// none: nothing is pruned here, nor below.
	none
)

// Complete does what upstream's Prune, PruneNonNullableNullsWithoutDefaults and Default do to an object, one after the other. It is not
// ok, and nothing is done, where the plan does not cover that.
func (n *Node) Complete(object map[string]any) (ok bool) {
	if n == nil || n.odd {
		return false
	}
	c := completer{}
	c.object(n, object, prune, true)
	return true
}

// Fill does what upstream's Default does to an object: it fills in what is missing, or null where null is not allowed, and drops
// nothing. It is not ok, and nothing is done, where the plan does not cover that.
func (n *Node) Fill(object map[string]any) (ok bool) {
	if n == nil || n.odd {
		return false
	}
	c := completer{keepNulls: true}
	c.object(n, object, none, true)
	return true
}

// Clean tells whether Prune and PruneNonNullableNullsWithoutDefaults would leave an object as it is, and there is no object within it
// that has metadata of its own, which would have to be looked at. It changes nothing.
func (n *Node) Clean(object map[string]any) bool {
	if n == nil {
		return false
	}
	c := completer{dry: true}
	c.object(n, object, prune, true)
	return !c.found
}

type completer struct {
	// dry: nothing is changed, and there are no defaults; found tells whether there was something to do.
	dry, found bool
	// keepNulls: a null that is not allowed stays where there is no default.
	keepNulls bool
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

// object completes an object. At a place of which the schema says nothing (n is nil), everything is pruned.
func (c *completer) object(n *Node, object map[string]any, p pruning, root bool) {
	if n == nil {
		if c.dry {
			c.found = c.found || len(object) > 0
		} else {
			clear(object)
		}
		return
	}
	if p == prune && n.preserve {
		p = keep
	}
	if c.dry && n.embedded && !root {
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
			c.remove(object, name)
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

func (c *completer) remove(object map[string]any, name string) {
	if c.found = c.dry; !c.dry {
		delete(object, name)
	}
}

// null completes a null that is not allowed.
func (c *completer) null(child *Node, object map[string]any, name string) {
	switch {
	case child.fallback == nil && c.keepNulls:
	case child.fallback == nil:
		c.remove(object, name)
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
	defer func(was bool) { c.keepNulls = was }(c.keepNulls)
	c.keepNulls = true
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
