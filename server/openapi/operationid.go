package openapi

import (
	"fmt"
	"strings"
	"unicode"

	"k8s.io/kube-openapi/pkg/common"
)

// verbs are the possible first words of an operation's name.
var verbs = []string{"get", "read", "replace", "patch", "delete", "watch", "connect", "list", "create"}

// operationID makes the id of an operation unique by inserting its group and version between the verb and its object: readNamespacedPod at /api/v1
// becomes readCoreV1NamespacedPod. The tag is the group and version, or the first element of a path without them.
func operationID(r common.Route) (string, []string, error) {
	name := r.OperationName()
	verb := ""
	for _, v := range verbs {
		if strings.HasPrefix(name, v) {
			verb = v
			break
		}
	}
	if verb == "" {
		return "", nil, fmt.Errorf("operation %q of %s does not start with a verb", name, r.Path())
	}
	rest := camel(strings.TrimPrefix(name, verb), true)
	elements := strings.Split(strings.Trim(r.Path(), "/"), "/")
	switch {
	case elements[0] == "api":
		elements[0] = "core"
	case elements[0] == "apis" && len(elements) > 1:
		elements = elements[1:]
	default:
		return verb + rest, []string{camel(elements[0], false)}, nil
	}
	group := strings.TrimSuffix(elements[0], ".k8s.io")
	id, tag := verb+camel(group, true), camel(group, false)
	if len(elements) > 1 {
		id += camel(elements[1], true)
		tag += "_" + camel(elements[1], false)
	}
	return id + rest, []string{tag}, nil
}

// camel removes characters that an identifier cannot have, and starts a new word there.
func camel(s string, capital bool) string {
	var b strings.Builder
	for i, r := range s {
		if !unicode.IsLetter(r) && r != '_' && (i == 0 || !unicode.IsDigit(r)) {
			capital = true
			continue
		}
		if capital {
			r = unicode.ToUpper(r)
			capital = false
		}
		b.WriteRune(r)
	}
	return b.String()
}

// title capitalizes a name for use in an operation.
func title(s string) string {
	if s == "" {
		return ""
	}
	return strings.ToUpper(s[:1]) + s[1:]
}
