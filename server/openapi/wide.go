package openapi

import (
	"bufio"
	"bytes"
	"crypto/sha512"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"

	"github.com/klauspost/compress/gzip"
	"k8s.io/kube-openapi/pkg/builder"
	"k8s.io/kube-openapi/pkg/common"
	"k8s.io/kube-openapi/pkg/handler"
	"k8s.io/kube-openapi/pkg/validation/spec"

	"github.com/rowlock/rowlock/resources"
	"github.com/rowlock/rowlock/resources/fastpath"
)

// wide is what a document of version 2 is made of that describes types without a Go type. A thousand of them make a hundred megabytes: it
// is written a type at a time, each in its place, and compressed as it is written. What the builders of kube-openapi make of a type depends
// on no other one, so that the text is that of a document that is built whole.
type wide struct {
	// base is the document of everything else, and others what other servers describe.
	base   *document
	others []*Part
	// versions have nothing but types without a Go type.
	versions []*resources.Version
}

// swaggerText is a document of version 2 by its members, in their order.
type swaggerText struct {
	Swagger             json.RawMessage            `json:"swagger"`
	Info                json.RawMessage            `json:"info"`
	Paths               map[string]json.RawMessage `json:"paths"`
	Definitions         map[string]json.RawMessage `json:"definitions,omitempty"`
	Parameters          map[string]json.RawMessage `json:"parameters,omitempty"`
	SecurityDefinitions json.RawMessage            `json:"securityDefinitions,omitempty"`
	Security            json.RawMessage            `json:"security,omitempty"`
}

// garbage is how much of it there may be meanwhile, in percent of the memory in use: what a schema needs is gone with the next one.
const garbage = 5

// errAlike: two parts of a document have a name in common, so that it has to be built whole.
var errAlike = errors.New("two parts of a document have a name in common")

// make writes the document, compressed, and returns it with its ETag. Errors: errAlike among them.
func (d *wide) make(s *source) (packed blocks, etag string, err error) {
	defer debug.SetGCPercent(debug.SetGCPercent(garbage))
	const level = 5 // in the time of the fastest, two thirds of its length
	z, err := gzip.NewWriterLevel(&packed, level)
	if err != nil {
		return nil, "", err
	}
	sum := sha512.New()
	out := bufio.NewWriterSize(io.MultiWriter(z, sum), 64<<10)
	if err := d.write(s, out); err != nil {
		return nil, "", err
	}
	if err := errors.Join(out.Flush(), z.Close()); err != nil {
		return nil, "", err
	}
	return packed, fmt.Sprintf("%X", sum.Sum(nil)), nil
}

// baseText is the document of everything else, by its members.
func (d *wide) baseText(s *source) (base swaggerText, err error) {
	if !d.base.forms[asJSON].Load().there() {
		if err := d.base.makeJSON(s); err != nil {
			return base, err
		}
	}
	text, err := d.base.forms[asJSON].Load().packed.unpack()
	if err != nil {
		return base, err
	}
	if len(d.others) > 0 {
		swaggers, err := readParts(d.others)
		if err != nil {
			return base, err
		}
		if text, err = join(text, swaggers); err != nil {
			return base, err
		}
	}
	return base, json.Unmarshal(text, &base)
}

func (d *wide) write(s *source, out *bufio.Writer) error {
	base, err := d.baseText(s)
	if err != nil {
		return err
	}
	definitions, err := s.definitions(definitionsV2, untypedModels)
	if err != nil {
		return err
	}
	w := &wideWriter{source: s, Writer: out, definitions: definitions, needed: spec.Definitions{}, parameters: map[string]spec.Parameter{},
		wordings: map[wordingKey]wording{}, stored: storedWriter{definitions: definitions, prefix: definitionsV2}}
	var paths, schemas []chunk
	for _, v := range d.versions {
		paths = append(paths, chunk{versionPath(v.GroupVersion) + "/", func() error { return w.writePaths(v) }})
		for _, u := range v.Resources {
			object, list := string(modelOf(u, u.Type.Kind)), string(modelOf(u, u.KindOfLists()))
			schemas = append(schemas, chunk{object, func() error { return w.writeObject(u) }}, chunk{list, func() error { return w.writeList(u) }})
		}
	}
	w.say(`{"swagger":`, base.Swagger)
	w.say(`,"info":`, base.Info)
	w.say(`,"paths":`)
	w.members(base.Paths, paths)
	w.say(`,"definitions":`)
	w.members(base.Definitions, append(schemas, w.missing(base)...))
	w.say(`,"parameters":`)
	w.members(base.Parameters, w.missingParameters(base))
	w.say(`,"securityDefinitions":`, base.SecurityDefinitions)
	w.say(`,"security":`, base.Security)
	w.say(`}`)
	return w.err
}

// chunk are members of an object that come after one another: all of their names begin with its own, and nobody else's do.
type chunk struct {
	name  string
	write func() error
}

// wideWriter writes a document. It stops at the first error.
type wideWriter struct {
	*source
	*bufio.Writer
	err error
	// comma: a member comes before the next one.
	comma bool
	// definitions are upstream's that types without a Go type need, and needed those that they came to.
	definitions map[string]common.OpenAPIDefinition
	needed      spec.Definitions
	parameters  map[string]spec.Parameter
	// wordings are the operations of types by what these have in common.
	wordings map[wordingKey]wording
	// list is the schema of a list with places for names, once it is needed.
	list *wordedPath
	// stored writes schemas of types.
	stored storedWriter
	// text has room for what is written next.
	text []byte
}

func (w *wideWriter) say(begin string, rest ...json.RawMessage) {
	if w.err == nil {
		_, w.err = w.WriteString(begin)
	}
	for _, text := range rest {
		if w.err == nil {
			_, w.err = w.Write(text)
		}
	}
}

// member writes a member of an object.
func (w *wideWriter) member(name string, text []byte) {
	if w.comma {
		w.say(",")
	}
	w.comma = true
	w.say(strconv.Quote(name)+":", text)
}

// members writes an object: what base has and the chunks, in the order of names.
func (w *wideWriter) members(base map[string]json.RawMessage, chunks []chunk) {
	slices.SortFunc(chunks, func(a, b chunk) int { return strings.Compare(a.name, b.name) })
	names := slices.Sorted(maps.Keys(base))
	w.comma = false
	w.say("{")
	for i, c := range chunks {
		for len(names) > 0 && names[0] < c.name {
			w.member(names[0], base[names[0]])
			base[names[0]] = nil // to be garbage: what is compressed grows meanwhile
			names = names[1:]
		}
		same := len(names) > 0 && (names[0] == c.name || strings.HasSuffix(c.name, "/") && strings.HasPrefix(names[0], c.name))
		if w.err == nil && (same || i > 0 && chunks[i-1].name == c.name) {
			w.err = errAlike
		}
		if w.err == nil {
			w.err = c.write()
		}
	}
	for _, name := range names {
		w.member(name, base[name])
	}
	w.say("}")
}

// writePaths writes the operations of a version: in the words of those of another type that has the same ones, where that can be.
func (w *wideWriter) writePaths(v *resources.Version) error {
	if ok, err := w.wordPaths(v); ok || err != nil {
		return err
	}
	fastpath.OpenAPI.Fallback()
	r, err := versionRoutes(v)
	if err != nil {
		return err
	}
	paths, err := w.buildPaths(r)
	if err != nil {
		return err
	}
	for _, p := range paths {
		w.member(p.path, p.text)
	}
	return w.err
}

// pathText are the operations of a path.
type pathText struct {
	path string
	text []byte
}

// buildPaths has the operations of a version made by kube-openapi. Of its types, whose schemas come later, the names are enough.
func (w *wideWriter) buildPaths(r *routes) (paths []pathText, err error) {
	own := map[string]bool{}
	for _, u := range r.untyped {
		for _, name := range []string{string(modelOf(u, u.Type.Kind)), string(modelOf(u, u.KindOfLists()))} {
			own[name] = true
			w.definitions[name] = common.OpenAPIDefinition{Dependencies: []string{objectMeta, listMeta}}
			defer delete(w.definitions, name)
		}
	}
	swagger, err := builder.BuildOpenAPISpecFromRoutes([]common.RouteContainer{w.encoded(r)}, w.configV2(w.definitions))
	if err != nil {
		return nil, err
	}
	for _, path := range slices.Sorted(maps.Keys(swagger.Paths.Paths)) {
		text, err := swagger.Paths.Paths[path].MarshalJSON()
		if err != nil {
			return nil, err
		}
		paths = append(paths, pathText{path, text})
	}
	for name, d := range swagger.Definitions {
		if !own[name] {
			w.needed[name] = d
		}
	}
	maps.Copy(w.parameters, swagger.Parameters)
	return paths, nil
}

func (w *wideWriter) writeObject(u *resources.Served) error {
	name := string(modelOf(u, u.Type.Kind))
	if _, kinds := w.name(name, nil); kinds == nil && u.OpenAPI != nil && u.OpenAPI.Stored != nil {
		text, ok := w.stored.write(u, w.text[:0])
		if ok {
			w.text = text // its room is for the next one
			w.member(name, text)
			return w.err
		}
		fastpath.OpenAPI.Fallback()
	}
	schema, err := objectSchema(w.definitions, u, definitionsV2)
	if err != nil {
		return err
	}
	return w.writeSchema(name, schema)
}

func (w *wideWriter) writeList(u *resources.Served) error {
	name := string(modelOf(u, u.KindOfLists()))
	if _, kinds := w.name(name, nil); kinds == nil {
		if ok, err := w.wordList(name, u); ok || err != nil {
			return err
		}
	}
	return w.writeSchema(name, listSchema(w.definitions, u, definitionsV2))
}

func (w *wideWriter) writeSchema(name string, schema *spec.Schema) error {
	if _, kinds := w.name(name, nil); kinds != nil {
		return errAlike // it is also the name of a Go type
	}
	text, err := handler.PruneDefaultsSchema(schema).MarshalJSON()
	if err == nil {
		w.member(name, text)
	}
	return err
}

// missing are the definitions of Go types that the base has no need of itself.
func (w *wideWriter) missing(base swaggerText) (chunks []chunk) {
	for name, schema := range w.needed {
		if _, there := base.Definitions[name]; !there {
			chunks = append(chunks, chunk{name, func() error {
				text, err := handler.PruneDefaultsSchema(&schema).MarshalJSON()
				w.member(name, text)
				return err
			}})
		}
	}
	return chunks
}

// missingParameters are the parameters that the base does not have.
func (w *wideWriter) missingParameters(base swaggerText) (chunks []chunk) {
	for name, p := range w.parameters {
		text, err := p.MarshalJSON()
		if err == nil && base.Parameters[name] != nil && !bytes.Equal(base.Parameters[name], text) {
			err = errAlike // their digests, which are in their names, are the same
		}
		if base.Parameters[name] == nil || err != nil {
			chunks = append(chunks, chunk{name, func() error {
				w.member(name, text)
				return err
			}})
		}
	}
	return chunks
}

// known returns a form that was made before, if the client has it: it need not be made once more to tell so.
func (d *document) known(r *http.Request, e encoding) *form {
	f := d.forms[e].Load()
	if f == nil || r.Header.Get("If-None-Match") != strconv.Quote(f.etag) {
		return nil
	}
	return f
}
