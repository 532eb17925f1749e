package openapi

import (
	"bytes"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/kube-openapi/pkg/handler"

	"github.com/rowlock/rowlock/resources"
)

// The operations of custom resources differ only in names. For each set of operations, kube-openapi builds them once for a placeholder type that
// does not exist, and its names, which occur in no other text, are then replaced by those of the others.

// wordingKey has everything but names that the operations of a type depend on.
type wordingKey struct {
	namespaced, status, scale bool
	verbs                     string
}

func wordingKeyOf(s *resources.Served) wordingKey {
	_, status := s.Subresources["status"]
	_, scale := s.Subresources["scale"]
	return wordingKey{s.Namespaced, status, scale, strings.Join(s.Verbs(), ",")}
}

// wording is a template of the operations of a type.
type wording []wordedPath

// wordedPath is the template of a path: its text is the literals, with a word of the type after each but the last.
type wordedPath struct {
	literals [][]byte
	words    []int
}

// named has the names of a type and texts derived from them, which are specific to the type and in the same order for all types of a wording.
type named struct {
	words []string
	// ids are those of the operations, and paths are their paths, without duplicates.
	ids, paths []string
}

// namesOf returns the names of a type; prefix is that of the document's definitions.
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

// covered tells whether names need no escapes anywhere, and kube-openapi does not take the type's bodies for shared ones.
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

// listWords are the texts in the schema of a list that are specific to its type.
func listWords(s *resources.Served) []string {
	schema := listSchema(nil, s, definitionsV2)
	items := schema.Properties["items"]
	return []string{items.Items.Schema.Ref.String(), items.Description, schema.Description, s.GroupVersionKind.Group, s.GroupVersionKind.Version, s.KindOfLists()}
}

// wordList writes the schema of a list from a template. If it cannot, ok is false and nothing is written.
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

// isOdd tells whether groups, versions and kinds cannot have a character.
func isOdd(c rune) bool {
	return (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && c != '.' && c != '-'
}

// nobody returns the placeholder type with the operations of another and with names that occur nowhere else.
func nobody(s *resources.Served) *resources.Served {
	gvk := schema.GroupVersionKind{Group: "nobody.rowlock.internal", Version: "v987654321", Kind: "RowlocksNobody"}
	return &resources.Served{GroupVersionKind: gvk, Type: &resources.Type{
		GroupResource: schema.GroupResource{Group: gvk.Group, Resource: "rowlocksnobodies"}, Kind: gvk.Kind, ListKind: "RowlocksNobodies",
		Namespaced: s.Namespaced, Subresources: s.Subresources, ServedVerbs: s.Verbs(), Untyped: true,
	}}
}

// wordingFor returns the template for a type, in the order of its paths.
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

// worded splits a text at the strings that are among words.
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

// in appends the text with the words of a type to out.
func (p wordedPath) in(words []string, out []byte) []byte {
	for i, word := range p.words {
		out = append(append(out, p.literals[i]...), words[word]...)
	}
	return append(out, p.literals[len(p.words)]...)
}

// wordPaths writes the operations of a version with templates. If kube-openapi must build them, ok is false and nothing is written.
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
