package plan

// verdict is what a plan says of a value.
type verdict uint8

const (
	valid verdict = iota
	// unknown: it is upstream's to say.
	unknown
	// invalid is a verdict within a node alone (of what is not to be valid, or by one branch of several).
	invalid
)

// Valid tells whether an object is valid for sure: by all that the schema says of values, of lists of the types map and set and of
// objects within it. What it is called with is not changed. An update is judged as a creation is: what stays as it was may be invalid,
// which is upstream's to say.
//
// Not judged: apiVersion, kind and metadata beyond what the schema says of them, and rules in CEL.
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

// allows tells whether a type is one that is allowed.
func (n *Node) allows(is typeSet) verdict {
	switch {
	case n.types == 0 || n.types&is != 0:
		return valid
	case n.formatted:
		return unknown
	}
	return invalid
}

// checkJunctors looks at what is said of the value by other schemas. Where an invalid branch counts, ratcheting in an update makes
// branches valid that would not be.
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
