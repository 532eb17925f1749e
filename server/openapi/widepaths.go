package openapi

import (
	"bytes"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/kube-openapi/pkg/handler"

	"github.com/rowlock/rowlock/resources"
)

// The operations of types without a Go type differ in names alone. Those of a type that does not exist are made by kube-openapi, once for
// all that have the same operations, and the names of the others are put in place of its own, which are in no other text.

// wordingKey is what the operations of a type depend on but names.
type wordingKey struct {
	namespaced, status, scale bool
	verbs                     string
}

func wordingKeyOf(s *resources.Served) wordingKey {
	_, status := s.Subresources["status"]
	_, scale := s.Subresources["scale"]
	return wordingKey{s.Namespaced, status, scale, strings.Join(s.Verbs(), ",")}
}

// wording is the text of the operations of a type, with places for its names.
type wording []wordedPath

// wordedPath is a path: the text is that of the literals, with a word of the type after each but the last.
type wordedPath struct {
	literals [][]byte
	words    []int
}

// named are the names of a type, and what is made of them: texts that are its own, in the same order for all that have a wording.
type named struct {
	words []string
	// ids are those of the operations, and paths theirs, each once.
	ids, paths []string
}

// namesOf: prefix is where the document has its definitions.
func namesOf(s *resources.Served, prefix string) (n named, err error) {
	n.words = []string{prefix + string(modelOf(s, s.Type.Kind)), prefix + string(modelOf(s, s.KindOfLists())),
		"name of the " + s.Type.Kind, s.GroupVersionKind.Group, s.GroupVersionKind.Version, s.GroupVersionKind.Kind}
	for _, op := range routesOf(s, true) {
		id, tags, err := operationID(op)
		if err != nil {
			return n, err
		}
		n.ids = append(n.ids, id)
		n.words = append(append(n.words, op.Description(), id), tags...)
		if !slices.Contains(n.paths, op.Path()) {
			n.paths = append(n.paths, op.Path())
		}
	}
	return n, nil
}

// covered: the names are written as they are, wherever they are, and kube-openapi does not take bodies of the type for everybody's.
func (n named) covered() bool {
	for _, word := range n.words {
		model, is := strings.CutPrefix(word, definitionsV2)
		if !is {
			model, is = strings.CutPrefix(word, definitionsV3)
		}
		if !isPlain(word) || is && (strings.ContainsFunc(model, isOdd) || strings.HasPrefix(model, "io.k8s.apimachinery")) {
			return false
		}
	}
	return true
}

// listWords are the texts of the schema of a list that are its own.
func listWords(s *resources.Served) []string {
	schema := listSchema(nil, s, definitionsV2)
	items := schema.Properties["items"]
	return []string{items.Items.Schema.Ref.String(), items.Description, schema.Description, s.GroupVersionKind.Group, s.GroupVersionKind.Version, s.KindOfLists()}
}

// wordList writes the schema of a list by that of nobody's. It is not ok, and nothing is written, where that is not the same but for names.
func (w *wideWriter) wordList(name string, s *resources.Served) (ok bool, err error) {
	words := (named{words: listWords(s)})
	if selectable(s) != nil || !words.covered() {
		return false, nil
	}
	if w.list == nil {
		n := nobody(s)
		text, err := handler.PruneDefaultsSchema(listSchema(w.definitions, n, definitionsV2)).MarshalJSON()
		if err != nil {
			return false, err
		}
		list := worded(text, listWords(n))
		w.list = &list
	}
	w.text = w.list.in(words.words, w.text[:0])
	w.member(name, w.text)
	return true, w.err
}

// isOdd: a character is in no group, version or kind.
func isOdd(c rune) bool {
	return (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && c != '.' && c != '-'
}

// nobody is a type that has the operations of another and names that are nowhere else.
func nobody(s *resources.Served) *resources.Served {
	gvk := schema.GroupVersionKind{Group: "nobody.rowlock.internal", Version: "v987654321", Kind: "RowlocksNobody"}
	return &resources.Served{GroupVersionKind: gvk, Type: &resources.Type{
		GroupResource: schema.GroupResource{Group: gvk.Group, Resource: "rowlocksnobodies"}, Kind: gvk.Kind, ListKind: "RowlocksNobodies",
		Namespaced: s.Namespaced, Subresources: s.Subresources, ServedVerbs: s.Verbs(), Untyped: true,
	}}
}

// wordingFor returns the wording of a type, by the order of its paths.
func (w *wideWriter) wordingFor(s *resources.Served) (wording, error) {
	key := wordingKeyOf(s)
	if known, there := w.wordings[key]; there {
		return known, nil
	}
	n := nobody(s)
	built, err := w.buildPaths(&routes{root: versionPath(n.GroupVersion()), list: untypedRoutes(n), untyped: []*resources.Served{n}})
	if err != nil {
		return nil, err
	}
	names, err := namesOf(n, definitionsV2)
	if err != nil {
		return nil, err
	}
	var made wording
	for _, path := range names.paths {
		i := slices.IndexFunc(built, func(p pathText) bool { return p.path == path })
		made = append(made, worded(built[i].text, names.words))
	}
	w.wordings[key] = made
	return made, nil
}

// worded takes a text apart at the strings that are among words.
func worded(text []byte, words []string) (p wordedPath) {
	began := 0
	for at := 0; at < len(text); {
		from := bytes.IndexByte(text[at:], '"')
		if from < 0 {
			break
		}
		from += at + 1
		to := from
		for text[to] != '"' {
			if text[to] == '\\' {
				to++
			}
			to++
		}
		if i := slices.Index(words, string(text[from:to])); i >= 0 {
			p.literals, p.words = append(p.literals, text[began:from]), append(p.words, i)
			began = to
		}
		at = to + 1
	}
	p.literals = append(p.literals, text[began:])
	return p
}

// in is the text with the words of a type, behind what out has.
func (p wordedPath) in(words []string, out []byte) []byte {
	for i, word := range p.words {
		out = append(append(out, p.literals[i]...), words[word]...)
	}
	return append(out, p.literals[len(p.words)]...)
}

// wordPaths writes the operations of a version by wordings. It is not ok, and nothing is written, where kube-openapi has to make them.
func (w *wideWriter) wordPaths(v *resources.Version) (ok bool, err error) {
	type of struct {
		path  string
		text  wordedPath
		words []string
	}
	var all []of
	ids := map[string]bool{}
	for _, u := range v.Resources {
		names, err := namesOf(u, definitionsV2)
		if err != nil || !names.covered() {
			return false, err
		}
		if !names.areNew(ids) {
			return false, nil
		}
		wording, err := w.wordingFor(u)
		if err != nil {
			return false, err
		}
		for i, path := range names.paths {
			all = append(all, of{path, wording[i], names.words})
		}
	}
	slices.SortFunc(all, func(a, b of) int { return strings.Compare(a.path, b.path) })
	for _, p := range all {
		w.text = p.text.in(p.words, w.text[:0])
		w.member(p.path, w.text)
	}
	return true, w.err
}
