package history

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strconv"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/registry/customresource/tableconvertor"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/json" // it makes whole numbers int64, as in unstructured objects
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/kube-openapi/pkg/validation/spec"

	"github.com/rowlock/rowlock/resources"
)

// The fields that select revisions, besides metadata.name and metadata.namespace.
const (
	fieldResource  = "object.resource"
	fieldName      = "object.name"
	fieldUID       = "object.uid"
	fieldOperation = "operation"
	fieldUser      = "requester.user"
)

var selectable = []string{fieldResource, fieldName, fieldUID, fieldOperation, fieldUser}

// columns are the columns that kubectl prints.
var columns = newColumns([]apiextensionsv1.CustomResourceColumnDefinition{
	{Name: "Resource", Type: "string", JSONPath: ".object.resource", Description: "The resource of the object that was written."},
	{Name: "Object", Type: "string", JSONPath: ".object.name", Description: "The name of the object that was written."},
	{Name: "Operation", Type: "string", JSONPath: ".operation", Description: "What was done: Create, Update or Delete."},
	{Name: "User", Type: "string", JSONPath: ".requester.user", Description: "Who asked for it."},
	{Name: "Age", Type: "date", JSONPath: ".metadata.creationTimestamp", Description: "When it was done."},
	{Name: "Paths", Type: "string", JSONPath: ".paths", Priority: 1, Description: "The fields that an update changed."},
	{Name: "Agent", Type: "string", JSONPath: ".requester.userAgent", Priority: 1, Description: "The User-Agent of the request."},
})

func newColumns(definitions []apiextensionsv1.CustomResourceColumnDefinition) rest.TableConvertor {
	t, err := tableconvertor.New(definitions)
	if err != nil {
		panic(err) // the definitions above are valid
	}
	return t
}

// describe is the schema of the objects of a type. deleted: they are deletions.
func describe(deleted bool) *resources.OpenAPI {
	return &resources.OpenAPI{Digest: digest(deleted), SelectableFields: selectable, Schema: func(bool) (*spec.Schema, error) { return schemaOf(deleted), nil }}
}

func digest(deleted bool) string {
	text, err := json.Marshal(schemaOf(deleted))
	if err != nil {
		panic(err) // the schema below is valid
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])
}

func schemaOf(deleted bool) *spec.Schema {
	text := func(says string) spec.Schema { return *spec.StringProperty().WithDescription(says) }
	whole := func(says string) spec.Schema {
		s := new(spec.Schema).Typed("object", "").WithDescription(says)
		s.AddExtension("x-kubernetes-preserve-unknown-fields", true)
		return *s
	}
	what := "Revision is a write of an object. Its name is the resourceVersion that the write gave the object, and its creationTimestamp is when that was."
	if deleted {
		what = "DeletedObject is the deletion of an object. Its name is the resourceVersion of the deletion, and its creationTimestamp is when that was."
	}
	object := new(spec.Schema).Typed("object", "").WithDescription("object is what was written.").
		SetProperty("resource", text("resource is the resource and its group, as in deployments.apps, or pods.")).
		SetProperty("name", text("name is that of the object.")).
		SetProperty("uid", text("uid is that of the object. Another object of the same name has another one."))
	requester := new(spec.Schema).Typed("object", "").WithDescription("requester is who asked for the write.").
		SetProperty("user", text("user is who sent the request, or the part of the server that wrote of itself.")).
		SetProperty("as", text("as is whom they impersonated.")).
		SetProperty("verb", text("verb is that of the request: create, update, patch, delete, deletecollection, or expire.")).
		SetProperty("subresource", text("subresource is that of the request.")).
		SetProperty("userAgent", text("userAgent is what the client says it is."))
	state := new(spec.Schema).Typed("object", "").WithDescription("state is the object, in the version that it was stored in, without managedFields and resourceVersion. "+
		"In the place of the values of Secrets there are hashes, unless the server keeps them. Lists leave it out.").
		SetProperty("before", whole("before is the object before the write; of an update, it is left out where it is too large for the size of the history.")).
		SetProperty("after", whole("after is the object after the write; of a deletion its last state."))
	return new(spec.Schema).Typed("object", "").WithDescription(what).
		SetProperty("object", *object).
		SetProperty("operation", text("operation is Create, Update or Delete.")).
		SetProperty("requester", *requester).
		SetProperty("paths", *spec.ArrayProperty(spec.StringProperty()).WithDescription("paths are the fields that an update changed. The last one is ... where there were more.")).
		SetProperty("state", *state).
		SetProperty("unreadable", *spec.BooleanProperty().WithDescription("unreadable tells that the object is not there because it could not be decrypted, or is too large for the size of the history."))
}

// operations are the names of the operations.
var operations = map[resources.Op]string{resources.Create: "Create", resources.Update: "Update", resources.Delete: "Delete"}

// nameOf is the name of a revision.
func nameOf(revision int64) string { return strconv.FormatInt(revision, 10) }

// revisionOf is the revision with a name.
func revisionOf(name string) (int64, bool) {
	n, err := strconv.ParseInt(name, 10, 64)
	return n, err == nil && n > 0 && nameOf(n) == name
}

// show makes an object from a revision.
func (f *finder) show(r *resources.Revision) (*unstructured.Unstructured, error) {
	u := &unstructured.Unstructured{Object: map[string]any{
		"object":    texts("resource", r.Key.Resource, "name", r.Key.Name, "uid", r.UID),
		"operation": operations[r.Op],
		"requester": texts("user", r.Author.User, "as", r.Author.As, "verb", r.Author.Verb, "subresource", r.Author.Subresource, "userAgent", r.Author.Agent),
	}}
	u.SetGroupVersionKind(GroupVersion.WithKind(f.t.Kind))
	u.SetName(nameOf(r.Revision))
	u.SetNamespace(r.Key.Namespace)
	u.SetCreationTimestamp(metav1.NewTime(r.At))
	if len(r.Fields) > 0 {
		paths := make([]any, len(r.Fields))
		for i, path := range r.Fields {
			paths[i] = path
		}
		u.Object["paths"] = paths
	}
	if r.Unreadable {
		u.Object["unreadable"] = true
	}
	state := map[string]any{}
	for name, data := range map[string][]byte{"before": r.Before, "after": r.After} {
		if len(data) == 0 {
			continue
		}
		var object map[string]any
		if err := json.Unmarshal(data, &object); err != nil {
			return nil, fmt.Errorf("revision %d of %s: the object %s it: %w", r.Revision, r.Key, name, err)
		}
		state[name] = object
	}
	if len(state) > 0 {
		u.Object["state"] = state
	}
	return u, nil
}

// texts is an object from pairs of names and values, without the empty ones.
func texts(pairs ...string) map[string]any {
	m := map[string]any{}
	for i := 0; i < len(pairs); i += 2 {
		if pairs[i+1] != "" {
			m[pairs[i]] = pairs[i+1]
		}
	}
	return m
}
