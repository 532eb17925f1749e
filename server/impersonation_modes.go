package server

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/validation"
	utilvalidation "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/audit"
	"k8s.io/apiserver/pkg/authentication/serviceaccount"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	counted "k8s.io/apiserver/pkg/endpoints/filters/impersonation/metrics"
	genericapirequest "k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/features"

	"github.com/rowlock/rowlock/resources"
)

// impersonationMode is a kind of impersonation with its own verbs (KEP-5284): impersonate:<mode> for becoming that user, and
// impersonate-on:<mode>:<verb> for doing so in a request for this resource. The mode without a name is the legacy one, which is tried last: there
// the one verb impersonate is valid for all requests.
type impersonationMode struct {
	name string
	// takes tells whether the mode applies to this user and this requester.
	takes func(wanted *user.DefaultInfo, who user.Info) bool
}

var impersonationModes = []impersonationMode{
	{"associated-node", func(wanted *user.DefaultInfo, who user.Info) bool {
		node, ok := nodeName(wanted.Name)
		_, _, err := serviceaccount.SplitUsername(who.GetName())
		at := who.GetExtra()[serviceaccount.NodeNameKey]
		return onlyName(wanted) && ok && err == nil && len(at) == 1 && at[0] == node
	}},
	{"arbitrary-node", func(wanted *user.DefaultInfo, _ user.Info) bool {
		_, ok := nodeName(wanted.Name)
		return onlyName(wanted) && ok
	}},
	{"serviceaccount", func(wanted *user.DefaultInfo, _ user.Info) bool {
		_, _, err := serviceaccount.SplitUsername(wanted.Name)
		return onlyName(wanted) && err == nil
	}},
	{"user-info", func(wanted *user.DefaultInfo, _ user.Info) bool {
		_, isNode := nodeName(wanted.Name)
		_, _, err := serviceaccount.SplitUsername(wanted.Name)
		return !isNode && err != nil
	}},
	legacyImpersonation,
}

var legacyImpersonation = impersonationMode{"", func(*user.DefaultInfo, user.Info) bool { return true }}

// label is the mode's name in metrics.
func (m impersonationMode) label() string {
	if m.name == "" {
		return "legacy"
	}
	return m.name
}

// nodeName returns the name of the node whose user this is.
func nodeName(username string) (string, bool) {
	node, ok := strings.CutPrefix(username, "system:node:")
	return node, ok && len(validation.NameIsDNSSubdomain(node, false)) == 0
}

func onlyName(u *user.DefaultInfo) bool {
	return u.UID == "" && len(u.Groups) == 0 && len(u.Extra) == 0
}

// impersonate returns the user to act as. As in kube-apiserver, the requester's last successful mode is tried first. So a requester who may use
// several modes can get different groups, depending on earlier requests. The error is that of the first applicable mode.
func (s *Server) impersonate(ctx context.Context, wanted *user.DefaultInfo, constrained bool) (user.Info, error) {
	request, err := s.Pipeline.Attributes(ctx)
	if err != nil {
		return nil, err
	}
	if !constrained {
		return s.impersonateIn(ctx, legacyImpersonation, wanted, request)
	}
	began := time.Now()
	as, mode, err := s.impersonateInAny(ctx, wanted, request)
	decision := "allowed"
	if err != nil {
		mode, decision = "", "denied"
	}
	took := time.Since(began)
	counted.RecordImpersonationAttempt(mode, decision, took)
	genericapirequest.TrackImpersonationLatency(ctx, took)
	return as, err
}

// impersonateInAny tries the modes, and returns the label of the successful one.
func (s *Server) impersonateInAny(ctx context.Context, wanted *user.DefaultInfo, request authorizer.AttributesRecord) (as user.Info, name string, told error) {
	who := request.User.GetName()
	for _, mode := range s.modesFor(who) {
		if !mode.takes(wanted, request.User) {
			continue
		}
		as, err := s.impersonateIn(ctx, mode, wanted, request)
		if err == nil {
			s.impersonations.Add(who, mode.name)
			return as, mode.label(), nil
		}
		if told == nil {
			told = err
		}
	}
	return nil, "", told
}

// modesFor returns the modes in the order to try them.
func (s *Server) modesFor(who string) []impersonationMode {
	last, known := s.impersonations.Get(who)
	if !known {
		return impersonationModes
	}
	ordered := slices.Clone(impersonationModes)
	slices.SortStableFunc(ordered, func(a, b impersonationMode) int {
		switch last {
		case a.name:
			return -1
		case b.name:
			return 1
		}
		return 0
	})
	return ordered
}

// impersonation checks one user in one mode.
type impersonation struct {
	*Server
	mode impersonationMode
	who  user.Info
	// constrained is set when the feature gate is on. Authorization checks are counted then.
	constrained bool
}

func (s *Server) impersonateIn(ctx context.Context, mode impersonationMode, wanted *user.DefaultInfo, request authorizer.AttributesRecord) (user.Info, error) {
	i := impersonation{s, mode, request.User, s.Features.Enabled(features.ConstrainedImpersonation)}
	if mode.name == "associated-node" {
		i.who = associated{request.User}
	}
	if mode.name != "" {
		request.User, request.Verb = i.who, "impersonate-on:"+mode.name+":"+request.Verb
		if err := i.may(ctx, request); err != nil {
			return nil, err
		}
	}
	as := *wanted
	if err := i.name(ctx, &as); err != nil {
		return nil, err
	}
	if err := i.parts(ctx, wanted); err != nil {
		return nil, err
	}
	all := user.AllAuthenticated
	if as.Name == user.Anonymous {
		all = user.AllUnauthenticated
	}
	if !slices.Contains(as.Groups, all) && !slices.Contains(as.Groups, user.AllUnauthenticated) {
		as.Groups = append(slices.Clip(as.Groups), all)
	}
	if s.Audit != nil {
		audit.LogImpersonatedUser(ctx, &as, i.constraint())
	}
	return &as, nil
}

// parts checks everything but the name, in kube-apiserver's order, which differs when the feature gate is off.
func (i impersonation) parts(ctx context.Context, wanted *user.DefaultInfo) error {
	if i.constrained {
		if err := i.uid(ctx, wanted.UID); err != nil {
			return err
		}
	}
	if err := i.groups(ctx, wanted.Groups); err != nil {
		return err
	}
	if err := i.extra(ctx, wanted.Extra); err != nil || i.constrained {
		return err
	}
	return i.uid(ctx, wanted.UID)
}

// constraint is the verb of the mode, for the audit; "" in the legacy mode.
func (i impersonation) constraint() string {
	if i.mode.name == "" {
		return ""
	}
	return "impersonate:" + i.mode.name
}

// attributes returns the authorization attributes of one property. In the legacy mode names and groups belong to the core group.
func (i impersonation) attributes(resource, name string) authorizer.AttributesRecord {
	a := authorizer.AttributesRecord{User: i.who, Verb: "impersonate", APIGroup: authenticationv1.GroupName, APIVersion: "v1", Resource: resource, Name: name,
		ResourceRequest: true}
	switch {
	case i.mode.name != "":
		a.Verb += ":" + i.mode.name
	case resource == "users", resource == "groups", resource == "serviceaccounts":
		a.APIGroup = ""
		if !i.constrained {
			a.APIVersion = ""
		}
	}
	return a
}

func (i impersonation) may(ctx context.Context, a authorizer.AttributesRecord) error {
	began := time.Now()
	decision, reason, failed := i.Pipeline.Decide(ctx, &a)
	if !i.constrained {
		if failed != nil || decision != authorizer.DecisionAllow {
			return resources.Forbidden(&a, reason) // with the gate off, kube-apiserver does not report the error
		}
		return nil
	}
	told := "denied"
	if decision == authorizer.DecisionAllow {
		told = "allowed"
	}
	counted.RecordImpersonationAuthorizationCall(i.mode.label(), told, time.Since(began))
	switch {
	case decision == authorizer.DecisionAllow:
		return nil // an authorizer may have failed on other rules
	case apierrors.IsForbidden(failed):
		return failed
	case failed != nil && reason != "":
		reason = failed.Error() + ": " + reason
	case failed != nil:
		reason = failed.Error()
	}
	return resources.Forbidden(&a, reason)
}

// name checks the right to the name, and adds the groups that the name implies.
func (i impersonation) name(ctx context.Context, as *user.DefaultInfo) error {
	a := i.attributes("users", as.Name)
	if node, ok := nodeName(as.Name); ok && i.mode.name != "" {
		a.Resource, a.Name = "nodes", node
		if i.mode.name == "associated-node" {
			a.Name = "*" // the right covers the node that the requester runs on, whichever it is
		}
		as.Groups = []string{user.NodesGroup}
	}
	if namespace, name, err := serviceaccount.SplitUsername(as.Name); err == nil {
		a.Resource, a.Namespace, a.Name = "serviceaccounts", namespace, name
		if len(as.Groups) == 0 {
			as.Groups = serviceaccount.MakeGroupNames(namespace)
		}
	}
	return i.may(ctx, a)
}

func (i impersonation) uid(ctx context.Context, uid string) error {
	if uid == "" {
		return nil
	}
	return i.may(ctx, i.attributes("uids", uid))
}

// many is the number of groups or values from which the right to all of them (*) is checked first.
const many = 4

func (i impersonation) groups(ctx context.Context, groups []string) error {
	a := i.attributes("groups", "")
	if i.mode.name != "" {
		if slices.Contains(groups, "") {
			return resources.Forbidden(&a, "impersonating the empty string group is not allowed")
		}
		if slices.Contains(groups, user.SystemPrivilegedGroup) {
			a.Name = user.SystemPrivilegedGroup
			return resources.Forbidden(&a, "impersonating the system:masters group is not allowed")
		}
		if a.Name = "*"; len(groups) >= many && i.may(ctx, a) == nil {
			return nil
		}
	}
	for _, a.Name = range groups {
		if err := i.may(ctx, a); err != nil {
			return err
		}
	}
	return nil
}

func (i impersonation) extra(ctx context.Context, extra map[string][]string) error {
	a := i.attributes("userextras", "")
	if i.mode.name != "" {
		if err := validateExtra(extra); err != nil {
			return resources.Forbidden(&a, err.Error())
		}
		values := 0
		for _, list := range extra {
			values += len(list)
		}
		if a.Subresource, a.Name = "*", "*"; max(len(extra), values) >= many && i.may(ctx, a) == nil {
			return nil
		}
	}
	for _, a.Subresource = range slices.Sorted(maps.Keys(extra)) {
		for _, a.Name = range extra[a.Subresource] {
			if err := i.may(ctx, a); err != nil {
				return err
			}
		}
	}
	return nil
}

// validateExtra rejects keys and values that the legacy mode does not check.
func validateExtra(extra map[string][]string) error {
	for key, values := range extra {
		if key == "" {
			return errors.New("impersonating the empty string key in extra is not allowed")
		}
		if err := utilvalidation.IsDomainPrefixedPath(field.NewPath("extra", "key"), key).ToAggregate(); err != nil {
			return fmt.Errorf("impersonating an invalid key in extra is not allowed: %w", err)
		}
		if key != strings.ToLower(key) {
			return fmt.Errorf("impersonating a non-lowercase key in extra is not allowed: %q", key)
		}
		switch {
		case len(values) == 0:
			return errors.New("impersonating empty values in extra is not allowed")
		case slices.Contains(values, ""):
			return errors.New("impersonating the empty string value in extra is not allowed")
		}
	}
	return nil
}

// associated is a service account that requests to be the node it runs on: authorizers see the keys of its extra, and not the values.
type associated struct{ user.Info }

// GetExtra implements user.Info.
func (a associated) GetExtra() map[string][]string {
	return map[string][]string{"authentication.kubernetes.io/associated-node-keys": slices.Sorted(maps.Keys(a.Info.GetExtra()))}
}
