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

// wide writes a document of version 2 with custom resources. A thousand of them make a hundred megabytes, so the document is written type by type,
// in order, and compressed as it is written. What the builders of kube-openapi make of a type does not depend on other types, so that the text
// equals that of a document built as a whole.
type wide struct {
	// base is the document of everything else, and others are the documents of other servers.
	base   *document
	others []*Part
	// versions have only custom resources.
	versions []*resources.Version
}

// swaggerText is a document of version 2 by its members, in order.
type swaggerText struct {
	Swagger             json.RawMessage            `json:"swagger"`
	Info                json.RawMessage            `json:"info"`
	Paths               map[string]json.RawMessage `json:"paths"`
	Definitions         map[string]json.RawMessage `json:"definitions,omitempty"`
	Parameters          map[string]json.RawMessage `json:"parameters,omitempty"`
	SecurityDefinitions json.RawMessage            `json:"securityDefinitions,omitempty"`
	Security            json.RawMessage            `json:"security,omitempty"`
}

// garbage is the target percentage for garbage collection meanwhile: the input for one schema is garbage with the next.
const garbage = 5

// errAlike says that two parts of a document have a name in common, so that it must be built as a whole.
var errAlike = errors.New("two parts of a document have a name in common")

// make returns the document, compressed, and its ETag. It can return errAlike.
func (d *wide) make(s *source) (packed blocks, etag string, err error) {
	defer debug.SetGCPercent(debug.SetGCPercent(garbage))
	const level = 5 // as fast as the fastest, with two thirds of its size
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

// baseText returns the document of everything else, by its members.
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

// chunk is a sequence of consecutive members of an object: all of their names, and no others, begin with its name.
type chunk struct {
	name  string
	write func() error
}

// wideWriter writes a document. It stops at the first error.
type wideWriter struct {
	*source
	*bufio.Writer
	err error
	// comma is set if the next member needs a comma before it.
	comma bool
	// definitions are upstream's for custom resources, and needed those that were referred to.
	definitions map[string]common.OpenAPIDefinition
	needed      spec.Definitions
	parameters  map[string]spec.Parameter
	// wordings has the templates of operations by wordingKey.
	wordings map[wordingKey]wording
	// list is the template of a list's schema, once it is needed.
	list *wordedPath
	// stored converts the schemas of types.
	stored storedWriter
	// text is a buffer for the next text.
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

// members writes an object, base and the chunks, in the order of names.
func (w *wideWriter) members(base map[string]json.RawMessage, chunks []chunk) {
	slices.SortFunc(chunks, func(a, b chunk) int { return strings.Compare(a.name, b.name) })
	names := slices.Sorted(maps.Keys(base))
	w.comma = false
	w.say("{")
	for i, c := range chunks {
		for len(names) > 0 && names[0] < c.name {
			w.member(names[0], base[names[0]])
			base[names[0]] = nil // for the garbage collector, as the compressed text grows meanwhile
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

// writePaths writes the operations of a version, with templates if possible.
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

// pathText has the operations of a path.
type pathText struct {
	path string
	text []byte
}

// buildPaths builds the operations of a version with kube-openapi. Of its types only the names are needed; their schemas come later.
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
			w.text = text // the buffer for the next one
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
		return errAlike // a Go type has the same name
	}
	text, err := handler.PruneDefaultsSchema(schema).MarshalJSON()
	if err == nil {
		w.member(name, text)
	}
	return err
}

// missing returns the definitions of Go types that base does not have.
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

// missingParameters returns the parameters that base does not have.
func (w *wideWriter) missingParameters(base swaggerText) (chunks []chunk) {
	for name, p := range w.parameters {
		text, err := p.MarshalJSON()
		if err == nil && base.Parameters[name] != nil && !bytes.Equal(base.Parameters[name], text) {
			err = errAlike // their names have equal digests
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

// known returns a form whose ETag the client has, even if its text was dropped: a 304 does not need it.
func (d *document) known(r *http.Request, e encoding) *form {
	f := d.forms[e].Load()
	if f == nil || r.Header.Get("If-None-Match") != strconv.Quote(f.etag) {
		return nil
	}
	return f
}
