package openapi

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"k8s.io/kube-openapi/pkg/builder3/util"
	"k8s.io/kube-openapi/pkg/common"
	"k8s.io/kube-openapi/pkg/validation/spec"

	"github.com/rowlock/rowlock/resources"
)

// These are the files that Prepare makes, below server/openapi.
const (
	FileIndex      = "prepared/index.txt"
	FileArchive    = "prepared/archive.gz"
	FileV2         = "prepared/v2.json.gz"
	FileV2Protobuf = "prepared/v2.pb.gz"
)

// Upstreams returns the definitions that upstream has generated.
func Upstreams(generated common.GetOpenAPIDefinitions) Definitions {
	return func(prefix string, _ []string) (map[string]common.OpenAPIDefinition, error) {
		return enabled(generated(func(model string) spec.Ref {
			return spec.MustCreateRef(prefix + common.EscapeJsonPointer(model))
		})), nil
	}
}

// Prepare makes the files with which a server answers without building: all documents of the default configuration, and those of version 3 of what
// a runtime config may add. The definitions include those of gated, which has the types that need a feature gate. The server does not link Prepare.
func Prepare(generated common.GetOpenAPIDefinitions, byDefault, added, gated *resources.Registry) (map[string][]byte, error) {
	texts, err := definitionTexts(Upstreams(generated))
	if err != nil {
		return nil, err
	}
	files, lines, documents := map[string][]byte{}, map[string]string{}, map[string][]byte{}
	used := map[string]definitionText{}
	for i, registry := range []*resources.Registry{byDefault, added, gated} {
		h := &Handler{registry: registry, now: time.Now, definitions: Upstreams(generated), anew: true}
		state := h.stateOf(registry.Catalog())
		src := newSource(h, state.catalog)
		if i == 0 {
			line, err := prepareV2(src, state.v2(), files)
			if err != nil {
				return nil, err
			}
			lines[" "+nameV2] = line // the first
		}
		for name, doc := range state.v3 {
			json, line, err := prepareOne(src, doc, name)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", name, err)
			}
			for name := range schemasOf(json) {
				used[name] = texts[name]
			}
			if registry != gated {
				lines[name+" "+line] = line
				documents[strings.Fields(line)[0]] = json
			}
		}
	}
	var all strings.Builder
	for _, key := range slices.Sorted(maps.Keys(lines)) {
		all.WriteString(lines[key])
	}
	files[FileIndex] = []byte(all.String())
	files[FileArchive], err = packArchive(used, documents)
	return files, err
}

// prepareOne returns the JSON of a document and its line of the index.
func prepareOne(src *source, doc *document, name string) (json []byte, line string, err error) {
	operations, err := doc.encoded(src)
	if err != nil {
		return nil, "", err
	}
	fingerprint, err := src.fingerprint(doc.name, operations)
	if err != nil {
		return nil, "", err
	}
	if json, err = doc.build(src, operations); err != nil {
		return nil, "", err
	}
	return json, fmt.Sprintf("%s %s %s\n", fingerprint, etagOf(json), name), nil
}

func prepareV2(src *source, doc *document, files map[string][]byte) (line string, err error) {
	json, line, err := prepareOne(src, doc, nameV2)
	if err != nil {
		return "", err
	}
	protobuf, err := doc.protobuf(json)
	if err != nil {
		return "", err
	}
	if files[FileV2], err = packTight(json); err != nil {
		return "", err
	}
	files[FileV2Protobuf], err = packTight(protobuf)
	return line, err
}

// definitionTexts returns the definitions in the archive's form.
func definitionTexts(definitions Definitions) (map[string]definitionText, error) {
	all, err := definitions(definitionsV3, nil)
	if err != nil {
		return nil, err
	}
	texts := map[string]definitionText{}
	for name, d := range all {
		text := definitionText{dependencies: d.Dependencies}
		if v2, ok := d.Schema.Extensions[common.ExtensionV2Schema]; ok {
			data, err := json.Marshal(v2)
			if err != nil {
				return nil, err
			}
			text.v2 = string(data)
			delete(d.Schema.Extensions, common.ExtensionV2Schema)
		}
		data, err := json.Marshal(util.WrapRefs(&d.Schema))
		if err != nil {
			return nil, err
		}
		text.v3 = string(data)
		texts[name] = text
	}
	return texts, nil
}

// schemasOf returns the schemas of a document of version 3.
func schemasOf(document []byte) map[string]json.RawMessage {
	var parts struct {
		Components struct {
			Schemas map[string]json.RawMessage `json:"schemas"`
		} `json:"components"`
	}
	if err := json.Unmarshal(document, &parts); err != nil {
		panic(err) // cannot happen: it was just marshalled
	}
	return parts.Components.Schemas
}

// template is the inverse of expand.
func template(document []byte, definitions map[string]definitionText) string {
	text := string(document)
	for name, schema := range schemasOf(document) {
		d, ok := definitions[name]
		if !ok || !bytes.HasPrefix(schema, []byte(d.v3[:len(d.v3)-1])) {
			continue
		}
		key := fmt.Sprintf("%q:", name)
		same := d.v3[:len(d.v3)-1]
		text = strings.Replace(text, key+same, key+string(nameBegins)+name+string(nameEnds), 1)
	}
	return text
}

// packArchive writes the archive that sections reads.
func packArchive(definitions map[string]definitionText, documents map[string][]byte) ([]byte, error) {
	var lines strings.Builder
	for _, name := range slices.Sorted(maps.Keys(definitions)) {
		d := definitions[name]
		fmt.Fprintf(&lines, "%s\t%s\t%s\t%s\n", name, strings.Join(d.dependencies, " "), d.v3, d.v2)
	}
	var all bytes.Buffer
	fmt.Fprintf(&all, "%s %d\n%s", definitionsSection, lines.Len(), lines.String())
	// Sort by text, because the documents of a group have much in common.
	names := slices.SortedFunc(maps.Keys(documents), func(a, b string) int { return bytes.Compare(documents[a], documents[b]) })
	for _, name := range names {
		text := template(documents[name], definitions)
		fmt.Fprintf(&all, "%s %d\n%s", name, len(text), text)
	}
	return packTight(packRepeats(all.Bytes()))
}

// packTight is pack for embedded files.
func packTight(data []byte) ([]byte, error) {
	var buf bytes.Buffer
	z := gzip.NewWriter(&buf)
	if _, err := z.Write(data); err != nil {
		return nil, err
	}
	if err := z.Close(); err != nil {
		return nil, err
	}
	return buf.Bytes(), nil
}
