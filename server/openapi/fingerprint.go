package openapi

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"hash"
	"io"
	"maps"
	"reflect"
	"slices"
	"strconv"

	genericfeatures "k8s.io/apiserver/pkg/features"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/kube-openapi/pkg/common"

	"github.com/rowlock/rowlock/resources"
	"github.com/rowlock/rowlock/resources/upstream"
)

// fingerprint identifies all inputs of a document that differ between servers of one build: its operations, the known kinds, the release, and the
// features that definitions depend on. Documents of equal fingerprints are equal, so that a prepared one can be sent instead of building one. A
// test fails if the code that builds documents changes and the prepared ones are not made again.
func (s *source) fingerprint(format string, all []*routes) (string, error) {
	f := fingerprinter{sha256.New()}
	head, err := json.Marshal(info())
	if err != nil {
		return "", err
	}
	f.add(format, string(head), s.known().digest(), strconv.FormatBool(utilfeature.DefaultFeatureGate.Enabled(genericfeatures.OpenAPIEnums)))
	for _, r := range all {
		f.add(r.root)
		f.addList(sortedDigests(r.list))
		for _, u := range r.untyped {
			f.addSchema(u)
		}
	}
	return hex.EncodeToString(f.Sum(nil)[:16]), nil
}

// sumUntyped is the fingerprint of the document of a version with only custom resources. The part of each type is cached with it, so that a change
// of one type does not cost the others of the version.
func (s *source) sumUntyped(v *resources.Version) (string, error) {
	f := fingerprinter{sha256.New()}
	f.add("untyped", upstream.Release, versionPath(v.GroupVersion))
	for _, served := range v.Resources {
		sum, err := served.Memo(untypedSum{}, func() (any, error) {
			one := fingerprinter{sha256.New()}
			one.addList(sortedDigests(untypedRoutes(served)))
			one.addSchema(served)
			return string(one.Sum(nil)), nil
		})
		if err != nil {
			return "", err
		}
		f.add(sum.(string))
	}
	return hex.EncodeToString(f.Sum(nil)), nil
}

// addSchema adds the inputs of a custom resource's definitions.
func (f fingerprinter) addSchema(s *resources.Served) {
	f.add(s.Type.Kind, s.KindOfLists())
	if s.OpenAPI != nil {
		f.add(s.OpenAPI.Digest)
		f.addList(s.OpenAPI.SelectableFields)
	}
}

// untypedSum is the key of the cached part of a custom resource.
type untypedSum struct{}

// sortedDigests returns the sorted digests of operations, whose order is irrelevant and varies.
func sortedDigests(list []common.Route) []string {
	var digests []string
	for _, op := range list {
		one := fingerprinter{sha256.New()}
		one.addRoute(op)
		digests = append(digests, string(one.Sum(nil)))
	}
	slices.Sort(digests)
	return digests
}

type fingerprinter struct{ hash.Hash }

// add writes strings unambiguously, each with its length before it.
func (f fingerprinter) add(values ...string) {
	for _, v := range values {
		_, _ = io.WriteString(f, strconv.Itoa(len(v))+":")
		_, _ = io.WriteString(f, v)
	}
}

func (f fingerprinter) addList(values []string) {
	f.add(strconv.Itoa(len(values)))
	f.add(values...)
}

func (f fingerprinter) addRoute(r common.Route) {
	f.add(r.Method(), r.Path(), r.OperationName(), r.Description(), typeName(r.RequestPayloadSample()), typeName(r.ResponsePayloadSample()))
	f.addList(r.Consumes())
	f.addList(r.Produces())
	parameters := r.Parameters()
	f.add(strconv.Itoa(len(parameters)))
	for _, p := range parameters {
		f.add(p.Name(), p.Description(), p.DataType(), strconv.Itoa(int(p.Kind())), strconv.FormatBool(p.Required()))
	}
	responses := r.StatusCodeResponses()
	f.add(strconv.Itoa(len(responses)))
	for _, response := range responses {
		f.add(strconv.Itoa(response.Code()), typeName(response.Model()))
	}
	metadata := r.Metadata()
	f.add(strconv.Itoa(len(metadata)))
	for _, key := range slices.Sorted(maps.Keys(metadata)) {
		f.add(key, fmt.Sprint(metadata[key]))
	}
}

// typeName is the name of a sample's type, with its package. A string represents itself.
func typeName(sample any) string {
	t := reflect.TypeOf(sample)
	if t == nil {
		return ""
	}
	if t.Kind() == reflect.String {
		return fmt.Sprintf("%q", sample)
	}
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	return t.PkgPath() + "." + t.Name()
}
