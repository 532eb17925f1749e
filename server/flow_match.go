package server

import (
	"slices"
	"strings"

	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	"k8s.io/apiserver/pkg/authentication/serviceaccount"
	"k8s.io/apiserver/pkg/authentication/user"
	genericapirequest "k8s.io/apiserver/pkg/endpoints/request"
)

// matches tells whether a request comes under the FlowSchema: one of its rules is for the user and for what is asked.
func (f *flow) matches(who user.Info, info *genericapirequest.RequestInfo) bool {
	for i := range f.rules {
		r := &f.rules[i]
		if !slices.ContainsFunc(r.Subjects, func(s flowcontrolv1.Subject) bool { return isSubject(s, who) }) {
			continue
		}
		if info.IsResourceRequest && slices.ContainsFunc(r.ResourceRules, func(r flowcontrolv1.ResourcePolicyRule) bool { return asksFor(r, info) }) {
			return true
		}
		if !info.IsResourceRequest && slices.ContainsFunc(r.NonResourceRules, func(r flowcontrolv1.NonResourcePolicyRule) bool {
			return anyOf(r.Verbs, info.Verb) && slices.ContainsFunc(r.NonResourceURLs, func(u string) bool { return under(u, info.Path) })
		}) {
			return true
		}
	}
	return false
}

// anyOf tells whether a list has a value, or is the one that stands for all.
func anyOf(list []string, value string) bool {
	return len(list) == 1 && list[0] == "*" || slices.Contains(list, value)
}

// isSubject tells whether a user is meant. Validation has seen to it that the field that is set is that of the kind.
func isSubject(s flowcontrolv1.Subject, who user.Info) bool {
	switch {
	case s.User != nil:
		return s.User.Name == "*" || s.User.Name == who.GetName()
	case s.Group != nil:
		return s.Group.Name == "*" || slices.Contains(who.GetGroups(), s.Group.Name)
	case s.ServiceAccount != nil && s.ServiceAccount.Name == "*":
		account, ok := strings.CutPrefix(who.GetName(), serviceaccount.ServiceAccountUsernamePrefix)
		namespace, _, _ := strings.Cut(account, serviceaccount.ServiceAccountUsernameSeparator)
		return ok && namespace == s.ServiceAccount.Namespace
	case s.ServiceAccount != nil:
		return serviceaccount.MatchesUsername(s.ServiceAccount.Namespace, s.ServiceAccount.Name, who.GetName())
	}
	return false
}

// asksFor tells whether a rule is for what a request asks for. A subresource is a resource of its own, and what is in no
// namespace has to be meant as such: that is also a list of all namespaces.
func asksFor(r flowcontrolv1.ResourcePolicyRule, info *genericapirequest.RequestInfo) bool {
	if !anyOf(r.Verbs, info.Verb) || !anyOf(r.APIGroups, info.APIGroup) {
		return false
	}
	resource := info.Resource
	if info.Subresource != "" {
		resource += "/" + info.Subresource
	}
	if !anyOf(r.Resources, resource) {
		return false
	}
	if info.Namespace == "" {
		return r.ClusterScope
	}
	return anyOf(r.Namespaces, info.Namespace)
}

// under tells whether a path is that of a rule or below it, whether the rule ends in /* or not.
func under(rule, path string) bool {
	if rule == "*" || rule == path {
		return true
	}
	below, ok := strings.CutPrefix(path, strings.TrimSuffix(strings.TrimSuffix(rule, "*"), "/"))
	return ok && strings.HasPrefix(below, "/")
}
