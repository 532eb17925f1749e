package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"github.com/google/go-cmp/cmp"
	"github.com/tidwall/gjson"
)

// values are the values of placeholders, by their names.
type values map[string]string

var placeholder = regexp.MustCompile(`\{\w+\}`)

// fill replaces placeholders by their values.
func (v values) fill(text string) string {
	return placeholder.ReplaceAllStringFunc(expand(text), func(name string) string {
		if value, ok := v[strings.Trim(name, "{}")]; ok {
			return value
		}
		return name
	})
}

// keep takes values from an answer. It returns the missing ones as problems.
func (v values) keep(paths map[string]string, a answer) (problems []string) {
	for name, path := range paths {
		found := gjson.GetBytes(a.text, path)
		if !found.Exists() {
			problems = append(problems, "there is no "+path)
		}
		v[name] = found.String()
	}
	return problems
}

// check returns the problems of an answer.
func (q step) check(a answer, kept values) (problems []string) {
	if a.code != q.Code {
		problems = append(problems, fmt.Sprintf("the code is %d, want %d", a.code, q.Code))
	}
	for name, want := range q.Answer {
		problems = append(problems, kept.match("header "+name, want, headerValue(a.header, name))...)
	}
	if q.Want != nil {
		var got any
		if err := json.Unmarshal(a.text, &got); err != nil {
			return append(problems, "not JSON: "+err.Error())
		}
		problems = append(problems, kept.match("", q.Want, got)...)
	}
	if q.Status != nil {
		if diff := cmp.Diff(decode(jsonOf(q.whole(kept))), decode(string(a.text))); diff != "" {
			problems = append(problems, "the Status differs (-want +got):\n"+diff)
		}
	}
	if q.Text != "" && string(a.text) != kept.fill(q.Text) {
		problems = append(problems, fmt.Sprintf("the text is %q, want %q", a.text, kept.fill(q.Text)))
	}
	return append(problems, q.checkEvents(a, kept)...)
}

func (q step) checkEvents(a answer, kept values) (problems []string) {
	if q.Events == nil {
		return nil
	}
	if len(a.events) != len(q.Events) {
		return []string{fmt.Sprintf("there are %d events, want %d", len(a.events), len(q.Events))}
	}
	for i, text := range a.events {
		for typ, object := range q.Events[i] {
			var got any
			if err := json.Unmarshal([]byte(live.ReplaceAllString(text, "${1}LIVE")), &got); err != nil {
				return append(problems, err.Error())
			}
			problems = append(problems, kept.match(fmt.Sprintf("event %d", i), map[string]any{"type": typ, "object": object}, got)...)
		}
	}
	return problems
}

// whole is the Status that the step expects, as decoded JSON.
func (q step) whole(kept values) map[string]any {
	status := map[string]any{"kind": "Status", "apiVersion": "v1", "metadata": map[string]any{}, "status": "Failure",
		"code": float64(q.Code), "message": kept.fill(q.Status.Message)}
	if q.Status.Reason != "" {
		status["reason"] = q.Status.Reason
	}
	if q.Status.Details != nil {
		status["details"] = kept.fillAll(q.Status.Details)
	}
	if q.Status.Metadata != nil {
		status["metadata"] = kept.fillAll(q.Status.Metadata)
	}
	return status
}

// decode decodes JSON in which the parts that differ between servers have been replaced by words.
func decode(text string) any {
	for _, p := range passing {
		text = p.is.ReplaceAllString(text, p.as)
	}
	var value any
	if err := json.Unmarshal([]byte(text), &value); err != nil {
		return err.Error()
	}
	return value
}

func (v values) fillAll(structure any) any {
	text, _ := json.Marshal(structure) // it came from JSON
	var filled any
	_ = json.Unmarshal([]byte(v.fill(string(text))), &filled)
	return filled
}

// headerValue is null, a value, or the list of values.
func headerValue(header http.Header, name string) any {
	switch found := header.Values(name); len(found) {
	case 0:
		return nil
	case 1:
		return found[0]
	default:
		list := make([]any, len(found))
		for i, value := range found {
			list[i] = value
		}
		return list
	}
}

// match returns the places where got differs from want.
func (v values) match(path string, want, got any) (problems []string) {
	wrong := func() []string {
		return []string{fmt.Sprintf("%s is %s, want %s", path, jsonOf(got), v.fill(jsonOf(want)))}
	}
	switch want := want.(type) {
	case map[string]any:
		object, ok := got.(map[string]any)
		if !ok {
			return wrong()
		}
		for _, key := range slices.Sorted(maps.Keys(want)) {
			problems = append(problems, v.match(path+"."+v.fill(key), want[key], object[v.fill(key)])...)
		}
		return problems
	case []any:
		list, ok := got.([]any)
		if !ok || len(list) != len(want) {
			return wrong()
		}
		for i := range want {
			problems = append(problems, v.match(fmt.Sprintf("%s[%d]", path, i), want[i], list[i])...)
		}
		return problems
	case string:
		text, ok := got.(string)
		if pattern, is := strings.CutPrefix(want, "~"); is && ok && regexp.MustCompile(v.fill(pattern)).MatchString(text) {
			return nil
		}
		if !ok || text != v.fill(want) {
			return wrong()
		}
		return nil
	}
	if !reflect.DeepEqual(want, got) {
		return wrong()
	}
	return nil
}

func jsonOf(value any) string {
	text, _ := json.Marshal(value) // it came from JSON
	return string(text)
}

// live matches the parts of a message with the store's revision or with stored data: the tables say LIVE.
var live = regexp.MustCompile(`(current: |in record \()[\w-]+`)

// passing are differences between two servers that behave the same, and their replacements.
var passing = []struct {
	is *regexp.Regexp
	as string
}{
	{regexp.MustCompile(`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z`), "TIME"},
	{regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`), "UID"},
	{regexp.MustCompile(`(resourceVersion[\\": ]+)\d+`), "${1}REVISION"},
	{regexp.MustCompile(`(too old resource version: \d+ )\(\d+\)`), "${1}(REVISION)"},
	{regexp.MustCompile(`(in the precondition \()\d+`), "${1}REVISION"},
	{live, "${1}LIVE"},
	{regexp.MustCompile(`\(\d+ vs\. 2097152\)`), "(BYTES vs. 2097152)"}, // of etcd's request, or of the object
	{regexp.MustCompile(`("continue": ?")[^"]+`), "${1}TOKEN"},          // a token of before or a new one
	{regexp.MustCompile(`"\d+[smh](\d+[sm])?"`), `"AGE"`},
	{regexp.MustCompile(`(generated-/?)\w{5}\b`), "${1}SUFFIX"},
	{regexp.MustCompile(`("nodePort": ?|"healthCheckNodePort": ?)\d+`), "${1}PORT"},
	// The documents of concurrent cases: the index names them by a hash of the server's inputs.
	{regexp.MustCompile(`"apis/s-[0-9a-f]+-\d+\.example\.com(/\w+)?":\s*\{[^}]*\},?\s*`), ""},
	{regexp.MustCompile(`10\.43\.\d+\.\d+|fd00:10:43::[0-9a-f]+`), "ADDRESS"},
}

// comparable is the answer without the parts that differ between servers.
func (a answer) comparable(kept values) string {
	text := string(a.text)
	for name, value := range kept {
		// Short values would match by accident.
		if len(value) >= 6 && name != "ns" && name != "id" {
			text = strings.ReplaceAll(text, value, "{"+name+"}")
		}
	}
	for _, p := range passing {
		text = p.is.ReplaceAllString(text, p.as)
	}
	var b strings.Builder
	fmt.Fprintln(&b, a.code)
	for _, name := range []string{"Content-Type", "Cache-Control", "Warning", "Retry-After", "Allow", "Location", "Content-Encoding", "Vary"} {
		if values := a.header.Values(name); len(values) > 0 {
			fmt.Fprintf(&b, "%s: %q\n", name, values)
		}
	}
	var indented bytes.Buffer
	for line := range strings.Lines(text) { // a watch has a line per event
		indented.Reset()
		if json.Indent(&indented, []byte(line), "", " ") == nil {
			line = indented.String()
		}
		b.WriteString(line)
	}
	return b.String()
}
