package plan

// verdict is a plan's result for a value.
type verdict uint8

const (
	valid verdict = iota
	// unknown: upstream has to decide.
	unknown
	// invalid is a verdict within a node only (by the schema of not, or by one branch of several).
	invalid
)

// Valid reports whether an object is certainly valid: by the schema's rules for values, for lists of the types map and set and for
// embedded objects. It does not change its arguments. An update is judged as a creation: an unchanged value may be invalid, which
// upstream has to decide.
//
// Not judged: apiVersion, kind and metadata beyond the schema's rules for them, and rules in CEL.
func (n *Node) Valid(object map[string]any, update bool) bool {
	if n == nil {
		return false
	}
	return n.checkObject(object, update) == valid
}

// check follows kube-openapi's validator (SchemaValidator.Validate). The first value that is not valid decides.
func (n *Node) check(v any, update bool) verdict {
	if n.foreign {
		return unknown
	}
	switch v := v.(type) {
	case nil:
		// An enum with null in it does not allow null.
		if (n.types == 0 || n.nullable) && len(n.enum) == 0 {
			return valid
		}
		return invalid
	case map[string]any:
		return n.checkObject(v, update)
	case []any:
		return n.checkList(v, update)
	}
	return worst(n.checkScalar(v), n.checkJunctors(v, update))
}

func worst(a, b verdict) verdict {
	if a != valid {
		return a
	}
	return b
}

// allows reports whether a type is allowed.
func (n *Node) allows(is typeSet) verdict {
	switch {
	case n.types == 0 || n.types&is != 0:
		return valid
	case n.formatted:
		return unknown
	}
	return invalid
}

// checkJunctors checks the value by the schemas in allOf, anyOf, oneOf and not. Where an invalid branch counts, ratcheting in an
// update may make invalid branches valid.
func (n *Node) checkJunctors(v any, update bool) verdict {
	for _, of := range n.allOf {
		if is := of.check(v, update); is != valid {
			return is
		}
	}
	if len(n.anyOf) > 0 {
		if is := checkAny(n.anyOf, v, update); is != valid {
			return is
		}
	}
	if (len(n.oneOf) > 0 || n.not != nil) && update {
		return unknown
	}
	if len(n.oneOf) > 0 {
		if is := checkOne(n.oneOf, v); is != valid {
			return is
		}
	}
	if n.not != nil {
		switch n.not.check(v, false) {
		case valid:
			return invalid
		case unknown:
			return unknown
		}
	}
	return valid
}

func checkAny(of []*Node, v any, update bool) verdict {
	best := invalid
	for _, n := range of {
		if best = min(best, n.check(v, update)); best == valid {
			break
		}
	}
	return best
}

func checkOne(of []*Node, v any) verdict {
	found := 0
	for _, n := range of {
		switch n.check(v, false) {
		case valid:
			found++
		case unknown:
			return unknown
		}
	}
	if found == 1 {
		return valid
	}
	return invalid
}

func (n *Node) checkObject(object map[string]any, update bool) verdict {
	if n.foreign || n.embedded || len(n.enum) > 0 {
		return unknown
	}
	if is := n.allows(anObject); is != valid {
		return is
	}
	if !n.properties.hold(int64(len(object))) {
		return invalid
	}
	for _, name := range n.required {
		if _, there := object[name]; !there {
			return invalid
		}
	}
	for name, v := range object {
		child, listed := n.fields[name]
		switch {
		case listed:
		case n.closed:
			return invalid
		case n.entry == nil:
			continue
		default:
			child = n.entry
		}
		if is := child.check(v, update); is != valid {
			return is
		}
	}
	return n.checkJunctors(object, update)
}
