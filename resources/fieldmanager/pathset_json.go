package fieldmanager

import "github.com/rowlock/rowlock/resources/jsonscan"

// maxDepth bounds the depth of sets that clients send; no built-in type comes near.
const maxDepth = 100

// parsePathSet reads a FieldsV1 in exactly the form that appendJSON writes, so that the text can represent the set. ok
// is false for any other form, which upstream's manager handles.
func parsePathSet(a *arena, text string) (set pathSet, ok bool) {
	p := parser{scanner: scanner{text: text}, builder: builder{arena: a}, build: true}
	if _, ok := p.object(anySet, nil, 0); !ok || p.pos != len(text) {
		return nil, false
	}
	return p.finish(0), true
}

// scanPathSet checks that parsePathSet reads a text, and that the set matches the schema, and reports whether the set
// has a path in common with d. It builds nothing.
func scanPathSet(text string, node *schemaNode, d pathSet) (meets, ok bool) {
	p := parser{scanner: scanner{text: text}}
	meets, ok = p.object(node, d, 0)
	return meets, ok && p.pos == len(text)
}

// scanner reads the tokens of a FieldsV1.
type scanner struct {
	text string
	pos  int
}

func (p *scanner) take(token string) bool {
	if len(p.text)-p.pos < len(token) || p.text[p.pos:p.pos+len(token)] != token {
		return false
	}
	p.pos += len(token)
	return true
}

// element reads a key and its colon.
func (p *scanner) element() (element, bool) {
	if p.pos >= len(p.text) || p.text[p.pos] != '"' {
		return "", false
	}
	end := jsonscan.EndOfString(p.text, p.pos) // validElement allows no escape but that of a quote
	if end == 0 {
		return "", false
	}
	e := p.text[p.pos+1 : end-1]
	p.pos = end
	return e, validElement(e) && p.take(":")
}

// parser reads a FieldsV1 and follows the schema and another set along.
type parser struct {
	scanner
	builder
	build bool
}

// object reads a level from its brace on. Below the root, the caller has read {} and "." where they may occur.
func (p *parser) object(node *schemaNode, d pathSet, depth int) (meets, ok bool) {
	if depth == 0 && p.take("{}") {
		return false, true
	}
	if !p.take("{") {
		return false, false
	}
	return p.nodes(node, d, depth)
}

func (p *parser) nodes(node *schemaNode, d pathSet, depth int) (meets, ok bool) {
	if depth > maxDepth || node.leafSet() {
		return false, false
	}
	last, field := "", 0
	for {
		e, ok := p.element()
		if !ok || last != "" && compareElements(last, e) >= 0 {
			return false, false
		}
		last = e
		var child *schemaNode
		if child, field, ok = node.child(e, field); !ok {
			return false, false
		}
		for len(d) > 0 && compareElements(d[0].element, e) < 0 {
			d = d[1:]
		}
		var other pathNode
		if len(d) > 0 && d[0].element == e {
			other = d[0]
		}
		hit, ok := p.node(e, child, other, depth)
		if !ok {
			return false, false
		}
		meets = meets || hit
		if p.take("}") {
			return meets, true
		}
		if !p.take(",") {
			return false, false
		}
	}
}

// node reads the value of a key: {} for a member, {".":{},…} for a member with more below it.
func (p *parser) node(e element, node *schemaNode, other pathNode, depth int) (meets, ok bool) {
	if p.take("{}") {
		if p.build {
			p.stack = append(p.stack, pathNode{e, true, nil})
		}
		return other.member, true
	}
	start := p.mark()
	member := p.take(`{".":{},`)
	if member {
		meets, ok = p.nodes(node, other.sub, depth+1)
	} else {
		meets, ok = p.object(node, other.sub, depth+1)
	}
	if ok && p.build {
		p.close(start, e, member)
	}
	return meets || member && other.member, ok
}

// appendJSON appends the FieldsV1 of the set.
func (s pathSet) appendJSON(b []byte) []byte {
	return append(s.appendNodes(append(b, '{')), '}')
}

func (s pathSet) appendNodes(b []byte) []byte {
	for i, n := range s {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, '"')
		b = append(b, n.element...)
		b = append(b, `":{`...)
		if n.member && len(n.sub) > 0 {
			b = append(b, `".":{},`...)
		}
		b = append(n.sub.appendNodes(b), '}')
	}
	return b
}
