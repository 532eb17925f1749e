package plan

import "k8s.io/apimachinery/pkg/runtime"

// pruning is the treatment of fields that the schema does not have.
type pruning uint8

const (
	prune pruning = iota
	// keep leaves them unchanged, and continues with the known fields.
	keep
	// none: nothing is pruned at this place or below it.
	none
)

// Fill does the same as upstream's Default: it sets missing fields to their defaults, and nulls that are not allowed, and drops nothing. If
// the plan does not cover the schema, ok is false and the object unchanged.
func (n *Node) Fill(object map[string]any) (ok bool) {
	if n == nil || n.odd {
		return false
	}
	c := completer{}
	c.object(n, object, none, true)
	return true
}

// Clean reports whether Prune, PruneNonNullableNullsWithoutDefaults and Coerce would leave an object unchanged. It changes nothing. plain
// reports whether Coerce would leave metadata unchanged; it is not called for the metadata of the object itself.
func (n *Node) Clean(object map[string]any, plain func(metadata any) bool) bool {
	if n == nil || n.odd {
		return false
	}
	c := completer{dry: true, plain: plain}
	c.object(n, object, prune, true)
	return !c.found
}

type completer struct {
	// dry: nothing is changed or defaulted; found reports whether there was a change to make.
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

// object completes an object. Where the schema defines nothing (n is nil), every field would be pruned.
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

// isPlain reports whether an embedded object has apiVersion, kind and metadata in their stored form.
func (c *completer) isPlain(object map[string]any) bool {
	for name, v := range object {
		_, text := v.(string)
		if isMeta(name) && (name == "metadata" && (c.plain == nil || !c.plain(v)) || name != "metadata" && !text) {
			return false
		}
	}
	return true
}

// null completes a null that is not allowed. Without a default it has to be dropped, but not by Fill.
func (c *completer) null(child *Node, object map[string]any, name string) {
	switch {
	case child.fallback == nil:
		c.found = c.dry
	case !c.dry:
		c.fill(child, object, name)
	}
}

// fill writes a default, and the defaults within it. The default was pruned when the schema was read, except for nulls, which upstream does
// not check again.
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
