package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// takeBack writes objects of a backup into a running control plane.
type takeBack struct {
	client *adminClient
	out    io.Writer
	dryRun bool
	// incomplete: an object that cannot be written does not keep the others from being written.
	incomplete bool
	// onlyCreates: an existing object is left alone, and is an error.
	onlyCreates bool
	// refuses: an object that was changed or created since the dry run is left alone, and is an error.
	refuses   bool
	resources map[string]*servedResources // by group and version
	wanted    map[types.UID]*part
	defines   map[string]bool         // resources whose definitions are restored, too
	uids      map[types.UID]types.UID // present uids of objects, by those in the backup
	early     []*part                 // what was written without an owner that was yet to be restored
	failed    int
}

// servedResources are the resources that a version has.
type servedResources struct {
	byName map[string]metav1.APIResource
	byKind map[string]metav1.APIResource
}

// takeBackManager is the field manager of restored objects until their original managers are restored.
const takeBackManager = "rowlock-restore"

var errNotServed = errors.New("the server does not serve")

// lacking introduces the reason why a dry run cannot tell more.
const lacking = ", when what it needs is there: "

// step is the write of one object.
type step struct {
	*part
	path   string                     // the path of the object
	list   string                     // the path to create it at
	status bool                       // there is a status subresource
	live   *unstructured.Unstructured // nil: there is no live object
	body   *unstructured.Unstructured
	early  bool // an owner is yet to be restored
	raced  bool // another client has written the object since its first write here
	does   string
}

// group tries all writes and, if all are possible, makes them. An incomplete restore makes those that are possible.
func (t *takeBack) group(ctx context.Context, parts []*part) error {
	var steps []*step
	failed := 0
	for _, p := range parts {
		s, err := t.feasible(ctx, p)
		if t.ends(ctx, err) {
			return err
		}
		if err != nil {
			fmt.Fprintf(t.out, "%s: cannot be taken back: %v\n", p, err)
			failed++
			t.leave(p)
			continue
		}
		steps = append(steps, s)
	}
	if t.failed += failed; failed > 0 && !t.dryRun && !t.incomplete {
		return fmt.Errorf("%s cannot be taken back: nothing of that group was written; say --incomplete to go without", counted(failed, "object"))
	}
	for _, s := range steps {
		err := t.do(ctx, s)
		if err != nil && (!t.incomplete || t.ends(ctx, err)) {
			return err
		}
		if err != nil {
			fmt.Fprintln(t.out, err)
			t.failed++
			t.leave(s.part)
		}
	}
	return nil
}

// leave leaves an object out of an incomplete restore: as an owner it counts as missing, unless there is one of its name.
func (t *takeBack) leave(p *part) {
	if t.incomplete {
		delete(t.wanted, p.uid)
	}
}

// ends tells whether an error is not about one object, so that no other can be restored either.
func (t *takeBack) ends(ctx context.Context, err error) bool {
	return err != nil && (ctx.Err() != nil || errors.Is(err, errNotRunning))
}

// do makes the write of a step, except in a dry run, and reports it.
func (t *takeBack) do(ctx context.Context, s *step) error {
	would := ""
	switch {
	case s.does == "unchanged":
	case t.dryRun:
		would = "would be "
	default:
		if err := t.write(ctx, s); err != nil {
			return fmt.Errorf("%s: %w", s.part, err)
		}
	}
	fmt.Fprintf(t.out, "%s: %s\n", s.part, would+s.does)
	return nil
}

// mostAttempts bounds the attempts for an object that other clients write at the same time.
const mostAttempts = 5

// feasible prepares a step and tries it as a dry run. Controllers may write meanwhile, above all into a new namespace:
// then it prepares the step again.
func (t *takeBack) feasible(ctx context.Context, p *part) (s *step, err error) {
	for range mostAttempts {
		s, err = t.stepFor(ctx, p)
		if t.dryRun && t.defines[p.resource] && errors.Is(err, errNotServed) {
			return &step{part: p, does: "created" + lacking + err.Error()}, nil
		}
		if err != nil || s.does == "unchanged" {
			return s, err
		}
		err = t.try(ctx, s)
		if s.live != nil && apierrors.IsInvalid(err) && t.wouldBeNew(ctx, s) {
			return s, fmt.Errorf("%w: as it was, it can be created only after what is there is deleted", err)
		}
		if !apierrors.IsAlreadyExists(err) && !apierrors.IsConflict(err) {
			return s, err
		}
	}
	return nil, err
}

// wouldBeNew tells whether an object that cannot be updated to its old state could be created with it, if the live object did not exist.
func (t *takeBack) wouldBeNew(ctx context.Context, s *step) bool {
	anew := *s
	anew.live, anew.body = nil, s.body.DeepCopy()
	anew.body.SetUID("")
	anew.body.SetResourceVersion("")
	_, err := t.sendOnce(ctx, &anew, "&dryRun=All")
	return apierrors.IsAlreadyExists(err)
}

// stepFor finds the path of an object, and its live state.
func (t *takeBack) stepFor(ctx context.Context, p *part) (*step, error) {
	gv, plural, served, err := t.servedFor(ctx, p)
	if err != nil {
		return nil, err
	}
	s := &step{part: p, body: p.object.DeepCopy()}
	_, s.status = served.byName[plural+"/status"]
	s.list = pathOf(gv, p.object.GetNamespace(), plural)
	s.path = s.list + "/" + url.PathEscape(p.object.GetName())
	live := &unstructured.Unstructured{}
	err = t.client.do(ctx, http.MethodGet, s.path, nil, live)
	switch {
	case apierrors.IsNotFound(err):
		s.does = "created"
	case err != nil:
		return nil, err
	case t.onlyCreates:
		return nil, errors.New("there is an object of this name")
	case live.GetDeletionTimestamp() != nil:
		return nil, errors.New("what is there is being deleted: wait until it is gone")
	default:
		s.live, s.does = live, "updated"
		t.uids[p.uid] = live.GetUID()
	}
	if err := t.own(ctx, s, false); err != nil {
		return nil, err
	}
	if err := t.claim(ctx, s); err != nil {
		return nil, err
	}
	s.clean()
	if err := t.bind(ctx, s); err != nil {
		return nil, err
	}
	if s.live != nil && !s.early && !s.halfDone() && equality.Semantic.DeepEqual(essence(s.live), essence(s.body)) {
		s.does = "unchanged"
	} else if p.version != "" {
		s.does += " in the version " + p.version + ", because that of the backup is not served"
	}
	return s, nil
}

func pathOf(gv schema.GroupVersion, namespace, plural string) string {
	path := "/apis/" + gv.String()
	if gv.Group == "" {
		path = "/api/" + gv.Version
	}
	if namespace != "" {
		path += "/namespaces/" + url.PathEscape(namespace)
	}
	return path + "/" + plural
}

func (t *takeBack) served(ctx context.Context, gv schema.GroupVersion) (*servedResources, error) {
	if known := t.resources[gv.String()]; known != nil {
		return known, nil
	}
	var list metav1.APIResourceList
	if err := t.client.do(ctx, http.MethodGet, strings.TrimSuffix(pathOf(gv, "", ""), "/"), nil, &list); err != nil {
		return nil, fmt.Errorf("what the server serves in %s: %w", gv, err)
	}
	served := &servedResources{map[string]metav1.APIResource{}, map[string]metav1.APIResource{}}
	for _, r := range list.APIResources {
		served.byName[r.Name] = r
		if !strings.Contains(r.Name, "/") {
			served.byKind[r.Kind] = r
		}
	}
	t.resources[gv.String()] = served
	return served, nil
}

// clean removes the fields that the server sets, or copies them from the live object as preconditions of the write.
func (s *step) clean() {
	b := s.body
	for _, field := range []string{"resourceVersion", "uid", "creationTimestamp", "generation", "selfLink", "deletionTimestamp", "deletionGracePeriodSeconds", "managedFields"} {
		unstructured.RemoveNestedField(b.Object, "metadata", field)
	}
	if s.live != nil {
		b.SetUID(s.live.GetUID())
		b.SetResourceVersion(s.live.GetResourceVersion())
		b.SetCreationTimestamp(s.live.GetCreationTimestamp())
	}
	if s.leaveStatus && s.status {
		delete(b.Object, "status")
		if s.live != nil && s.live.Object["status"] != nil {
			b.Object["status"] = s.live.Object["status"]
		}
	}
	if manual, _, _ := unstructured.NestedBool(b.Object, "spec", "manualSelector"); s.resource == jobs && !manual {
		generatedOf(b, s.live)
	}
}

// halfDone tells whether an earlier restore was killed after it wrote the object and before it restored its field managers.
func (s *step) halfDone() bool {
	half := func(m metav1.ManagedFieldsEntry) bool { return m.Manager == takeBackManager }
	had := s.object.GetManagedFields()
	return len(had) > 0 && !slices.ContainsFunc(had, half) && slices.ContainsFunc(s.live.GetManagedFields(), half)
}

// essence returns an object without the metadata that the server sets.
func essence(o *unstructured.Unstructured) map[string]any {
	e := o.DeepCopy().Object
	for _, field := range []string{"resourceVersion", "uid", "creationTimestamp", "generation", "managedFields"} {
		unstructured.RemoveNestedField(e, "metadata", field)
	}
	return e
}

// try makes the write as a dry run. It cannot be tried while the namespace does not exist.
func (t *takeBack) try(ctx context.Context, s *step) error {
	_, err := t.send(ctx, s, "&dryRun=All")
	missing := apierrors.IsNotFound(err) || err != nil && strings.Contains(err.Error(), "error looking up service account")
	if missing && t.dryRun {
		s.does += lacking + err.Error()
		return nil
	}
	return err
}

// send sends the object. A Service whose addresses are taken is sent again with others.
func (t *takeBack) send(ctx context.Context, s *step, more string) (*unstructured.Unstructured, error) {
	written, err := t.sendOnce(ctx, s, more)
	for s.resource == "services" && withoutTaken(s.body, s.live, err) {
		s.does += ", with another address or node port: " + err.Error()
		written, err = t.sendOnce(ctx, s, more)
	}
	return written, err
}

func (t *takeBack) sendOnce(ctx context.Context, s *step, more string) (*unstructured.Unstructured, error) {
	written := &unstructured.Unstructured{}
	query := "?fieldManager=" + takeBackManager + more
	if s.live == nil {
		return written, t.client.do(ctx, http.MethodPost, s.list+query, s.body, written)
	}
	return written, t.client.do(ctx, http.MethodPut, s.path+query, s.body, written)
}

// sendOwned sends the object with the owners that are there by now: those of its group have been written since it was tried.
func (t *takeBack) sendOwned(ctx context.Context, s *step) (*unstructured.Unstructured, error) {
	if err := t.own(ctx, s, true); err != nil {
		return nil, err
	}
	return t.send(ctx, s, "")
}

// write writes an object, its status, and its field managers.
func (t *takeBack) write(ctx context.Context, s *step) error {
	written, err := t.sendOwned(ctx, s)
	if apierrors.IsAlreadyExists(err) && !t.refuses { // a controller was faster
		var now *step
		if now, err = t.stepFor(ctx, s.part); err == nil {
			*s = *now // and is reported
		}
		if err == nil && s.does != "unchanged" {
			written, err = t.sendOwned(ctx, s)
		}
	}
	if apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) {
		return changedMeanwhile(err)
	}
	if err != nil || s.does == "unchanged" {
		return err
	}
	t.uids[s.uid] = written.GetUID()
	if s.early {
		t.early = append(t.early, s.part)
	}
	return t.complete(ctx, s, written)
}
