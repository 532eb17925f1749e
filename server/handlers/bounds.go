package handlers

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/cbor/direct"
	kjson "sigs.k8s.io/json"
	"sigs.k8s.io/yaml"

	"github.com/rowlock/rowlock/resources/jsonscan"
	"github.com/rowlock/rowlock/resources/upstream"
	"github.com/rowlock/rowlock/server/codec"
	"github.com/rowlock/rowlock/server/codec/transcode"
)

// bounded refuses a text that upstream's packages would decode into a Go type for minutes, or into gigabytes: one with more than
// jsonscan.MostElements elements of lists, or with a quantity that is costly to compute with. typedjson leaves such texts to upstream's packages, so
// that this is asked only before they are used.
func (q *request) bounded(media string, body []byte) error {
	if q.untyped() {
		return nil
	}
	switch media {
	case codec.Protobuf:
		return q.boundedProtobuf(body)
	case codec.YAML:
		text, err := yaml.YAMLToJSON(body)
		if err != nil {
			return nil //nolint:nilerr // the decoder words it
		}
		body = text
	case codec.CBOR:
		var v any
		if direct.Unmarshal(body, &v) != nil {
			return nil
		}
		text, err := json.Marshal(v)
		if err != nil {
			return nil //nolint:nilerr // the decoder words it
		}
		body = text
	}
	if len(body) > jsonscan.MostElements && elements(body) > jsonscan.MostElements {
		return tooManyElements()
	}
	return q.boundedQuantities(body)
}

func tooManyElements() error {
	return apierrors.NewRequestEntityTooLargeError(fmt.Sprintf("limit of elements in lists is %d", jsonscan.MostElements))
}

// elements counts the elements of all lists in a JSON text, but one of each list: nested lists, of which no object consists, are the decoder's matter.
func elements(text []byte) int {
	var open []byte // the brackets that are open
	n := 0
	for i := 0; i < len(text); i++ {
		switch c := text[i]; c {
		case '"':
			i += stringLength(text[i:]) - 1
		case '[', '{':
			open = append(open, c)
		case ']', '}':
			open = open[:max(len(open)-1, 0)]
		case ',':
			if len(open) > 0 && open[len(open)-1] == '[' {
				n++
			}
		}
	}
	return n
}

// stringLength is the length of the JSON string at the beginning of a text, with its quotes.
func stringLength(text []byte) int {
	if end := jsonscan.EndOfString(text, 0); end > 0 {
		return end
	}
	return len(text)
}

// boundedQuantities refuses costly quantities in a JSON text. The same characters in a label or in data are none: they are replaced by what is no
// quantity, and only where the object then cannot be decoded any more were they one.
func (q *request) boundedQuantities(text []byte) error {
	spoiled := spoilQuantities(text)
	if spoiled == nil {
		return nil
	}
	versioned, err := q.served.Scheme.New(q.kind)
	if err != nil {
		return nil //nolint:nilerr // the decoder words it
	}
	if err := kjson.UnmarshalCaseSensitivePreserveInts(spoiled, versioned); err != nil {
		return q.spoiled(err, text)
	}
	return nil
}

// spoiled words the error of a spoiled text as that of an exponent that upstream does not read. Any other error is the sent text's own.
func (q *request) spoiled(cause error, sent []byte) error {
	if strings.Contains(cause.Error(), resource.ErrFormatWrong.Error()) {
		cause = resource.ErrSuffix
	}
	into, err := q.newHub()
	if err != nil {
		return err
	}
	return q.decodeError(cause, into, &q.kind, sent)
}

// spoilQuantities replaces all strings and numbers that may be costly quantities. It returns nil if there are none.
func spoilQuantities(text []byte) []byte {
	if !mayBeCostly(text) {
		return nil
	}
	var out []byte
	done := 0
	for i := 0; i < len(text); {
		n, value := 1, ""
		switch c := text[i]; {
		case c == '"':
			n = stringLength(text[i:])
			_ = json.Unmarshal(text[i:i+n], &value)
		case c == '-' || c >= '0' && c <= '9':
			n = numberLength(text[i:])
			value = string(text[i : i+n])
		}
		if value != "" && upstream.CostlyQuantity(value) && !bytes.HasPrefix(bytes.TrimLeft(text[i+n:], " \t\r\n"), []byte(":")) {
			out = append(append(out, text[done:i]...), `"AAAA"`...) // base64, as the data of a Secret has to be
			done = i + n
		}
		i += n
	}
	if out == nil {
		return nil
	}
	return append(out, text[done:]...)
}

// mayBeCostly tells whether a JSON text has an exponent of four digits, a thousand digits, or a digit or an e as an escape.
func mayBeCostly(text []byte) bool {
	found := false
	digitRuns(text, func(from, to int) bool {
		found = to-from >= 900 || isExponent(text, from)
		return !found
	})
	escape := []byte(`\u00`)
	for i := bytes.Index(text, escape); i >= 0 && !found; i = bytes.Index(text, escape) {
		text = text[i+len(escape):]
		found = len(text) > 1 && (text[0] == '3' && isNumeral(text[1]) || string(text[:2]) == "45" || string(text[:2]) == "65")
	}
	return found
}

// digitRuns calls yield with the runs of at least four digits and decimal points, until it returns false.
func digitRuns(text []byte, yield func(from, to int) bool) {
	const least = 4
	for i := least - 1; i < len(text); i += least {
		if !isNumeral(text[i]) {
			continue
		}
		from, to := i, i+1
		for from > 0 && isNumeral(text[from-1]) {
			from--
		}
		for to < len(text) && isNumeral(text[to]) {
			to++
		}
		if to-from >= least && !yield(from, to) {
			return
		}
		i = to
	}
}

func isNumeral(c byte) bool { return c >= '0' && c <= '9' || c == '.' }

// isExponent tells whether the digits at a position follow an e that follows a digit.
func isExponent(text []byte, at int) bool {
	if at > 0 && (text[at-1] == '+' || text[at-1] == '-') {
		at--
	}
	return at > 1 && (text[at-1] == 'e' || text[at-1] == 'E') && isNumeral(text[at-2])
}

// boundedProtobuf is bounded for protobuf.
func (q *request) boundedProtobuf(body []byte) error {
	versioned, err := q.served.Scheme.New(q.kind)
	var envelope runtime.Unknown
	raw, marked := bytes.CutPrefix(body, codec.ProtobufMagic)
	if err != nil || !marked || envelope.Unmarshal(raw) != nil {
		return nil //nolint:nilerr // the decoder words it
	}
	costly := false
	elements := transcode.Inspect(reflect.TypeOf(versioned).Elem(), envelope.Raw, func(text string) { costly = costly || upstream.CostlyQuantity(text) })
	switch {
	case elements > jsonscan.MostElements:
		return tooManyElements()
	case costly:
		return q.spoiled(resource.ErrSuffix, body)
	}
	return nil
}
