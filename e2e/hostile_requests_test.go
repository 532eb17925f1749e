package e2e

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"fmt"
	"io"
	"net/url"
	"strings"
)

const (
	configs = "/api/v1/namespaces/default/configmaps"
	fences  = "/apis/networking.k8s.io/v1/namespaces/default/networkpolicies"
	pods    = "/api/v1/namespaces/default/pods"
	crds    = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
	asJSON  = "application/json"
	asYAML  = "application/yaml"
)

// text is a body that is sent with its length.
func (c hostile) text(text string) hostile {
	c.body, c.length = func() io.Reader { return strings.NewReader(text) }, int64(len(text))
	return c
}

// as sets the media type of the body.
func (c hostile) as(media string) hostile {
	c.headers = map[string]string{"Content-Type": media}
	return c
}

// endless is a reader of n bytes.
func endless(n int64) func() io.Reader {
	return func() io.Reader {
		return io.MultiReader(strings.NewReader(`{"data":{"a":"`), io.LimitReader(zeros{}, n))
	}
}

// zeros is an endless reader of "0".
type zeros struct{}

func (zeros) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = '0'
	}
	return len(p), nil
}

func zipped(text string) string {
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	_, _ = io.WriteString(w, text)
	_ = w.Close()
	return b.String()
}

// numbered joins n copies of a text, in each of which %d is replaced by its number.
func numbered(n int, format, separator string) string {
	parts := make([]string, n)
	for i := range parts {
		parts[i] = fmt.Sprintf(format, i)
	}
	return strings.Join(parts, separator)
}

func laughs(levels int) string {
	var b strings.Builder
	b.WriteString("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: many}\na0: &a0 [lol, lol, lol, lol, lol, lol, lol, lol, lol]\n")
	for i := 1; i < levels; i++ {
		fmt.Fprintf(&b, "a%d: &a%d [%s]\n", i, i, strings.Repeat(fmt.Sprintf("*a%d, ", i-1), 9))
	}
	return b.String()
}

// policyOf is the spec of a NetworkPolicy that admits some traffic.
func policyOf(from string) string {
	return `"spec":{"podSelector":{},"ingress":[{"from":[` + from + `]}]}`
}

// hostileObjects are prerequisites of the others.
func hostileObjects() []hostile {
	env := numbered(30000, `{"name":"e%d"}`, ",")
	blocks := policyOf(numbered(5000, `{"ipBlock":{"cidr":"fd00::%d/128"}}`, ","))
	return []hostile{
		sends("a ConfigMap", "POST "+configs, 201).text(`{"metadata":{"name":"a"},"data":{"k":"` + strings.Repeat("v", 900000) + `"}}`),
		sends("a ConfigMap with a finalizer", "POST "+configs, 201).text(`{"metadata":{"name":"f","finalizers":["a/b"]}}`),
		sends("a NetworkPolicy of 5,000 blocks", "POST "+fences, 201).text(`{"metadata":{"name":"n"},` + blocks + `}`),
		sends("a pod with 30,000 variables", "POST "+pods, 201).text(`{"metadata":{"name":"p"},"spec":{"containers":[{"name":"c","image":"i","env":[` + env + `]}]}}`),
	}
}

func hostileBodies() []hostile {
	post := func(name, media, body string, code int) hostile {
		return (hostile{name: name, request: "POST " + configs + "?dryRun=All", code: code}).as(media).text(body)
	}
	const proto = "application/vnd.kubernetes.protobuf"
	cases := []hostile{
		{name: "100 MB of JSON", request: "POST " + configs, body: endless(100 << 20), length: 100<<20 + 14, code: 413},
		{name: "100 MB of JSON in chunks", request: "POST " + configs, body: endless(100 << 20), code: 413},
		{name: "a body of a delete in chunks", request: "DELETE " + configs + "/none", body: endless(100 << 20), code: 413},
		post("a gzip bomb", asJSON, zipped(`{"metadata":{"name":"n"},"data":{"k":"`+strings.Repeat("v", 100<<20)+`"}}`), 400),
		post("YAML aliases", asYAML, laughs(12), 400),
		post("nested JSON", asJSON, `{"metadata":{"name":"n"},"x":`+strings.Repeat("[", 3000000), 400),
		post("nested JSON that ends", asJSON, `{"metadata":{"name":"n"},"x":`+strings.Repeat("[", 1500000)+strings.Repeat("]", 1500000)+"}", 400),
		post("nested JSON objects", asJSON, strings.Repeat(`{"a":`, 600000), 400),
		post("nested JSON of a known field", asJSON, `{"metadata":{"name":"n","managedFields":[{"manager":"m","operation":"Apply","apiVersion":"v1","fieldsType":"FieldsV1","fieldsV1":`+
			strings.Repeat(`{"f:a":`, 300000)+`{}`+strings.Repeat("}", 300000)+"}]}}", 400),
		post("nested YAML", asYAML, strings.Repeat("[", 3000000), 400),
		post("nested YAML blocks", asYAML, strings.Repeat("- ", 1500000), 400),
		post("nested YAML keys", asYAML, strings.Repeat("? ", 1500000), 400),
		post("YAML of many documents", asYAML, strings.Repeat("---\n", 700000), 422),
		post("YAML of many anchors", asYAML, "metadata: {name: many}\nx: ["+numbered(75000, "&a%d 1", ",")+"]", 201),
		post("YAML merges", asYAML, "a: &a {"+numbered(10000, "k%d: 1", ",")+"}\nb: ["+strings.Repeat("{<<: *a},", 50000)+"]", 400),
		post("CBOR of a long array", "application/cbor", "\xd9\xd9\xf7\x9b\x00\xff\xff\xff\xff\xff\xff\xff", 415),
		post("nested CBOR", "application/cbor", "\xd9\xd9\xf7"+strings.Repeat("\x81", 3000000), 415),
		post("protobuf with a long length", proto, "k8s\x00\x0a\x0f\x0a\x02v1\x12\x09ConfigMap\x12\xff\xff\xff\xff\xff\xff\xff\xff\x7f", 400),
		sends("nested protobuf", "POST "+crds+"?dryRun=All", 422).as(proto).text(nestedDefinition(900000)),
		sends("nested JSON in protobuf", "POST /apis/apps/v1/namespaces/default/controllerrevisions?dryRun=All", 422).as(proto).
			text(revisionOf(strings.Repeat("[", 1000000) + strings.Repeat("]", 1000000))),
		sends("nested JSON of a revision", "POST /apis/apps/v1/namespaces/default/controllerrevisions?dryRun=All", 201).
			text(`{"metadata":{"name":"r"},"revision":1,"data":{"a":` + strings.Repeat("[", 9000) + strings.Repeat("]", 9000) + `}}`),
		post("a million labels", asJSON, `{"metadata":{"name":"n","labels":{`+numbered(1000000, `"l%d":""`, ",")+`}}}`, 413),
		post("60,000 labels", asJSON, `{"metadata":{"name":"n","labels":{`+numbered(60000, `"l%d":""`, ",")+`}}}`, 201),
		post("30,000 bad labels", asJSON, `{"metadata":{"name":"n","labels":{`+numbered(30000, `"l%d/":"-"`, ",")+`}}}`, 422),
		post("200,000 unknown fields", asJSON, `{"metadata":{"name":"n"},`+numbered(200000, `"%d":1`, ",")+`}`, 201),
		sends("200,000 unknown fields, strict", "POST "+configs+"?dryRun=All&fieldValidation=Strict", 400).as(asJSON).
			text(`{"metadata":{"name":"n"},` + numbered(200000, `"%d":1`, ",") + `}`),
		sends("a million containers", "POST "+pods, 413).
			text(`{"metadata":{"name":"n"},"spec":{"containers":[{}` + strings.Repeat(",{}", 999999) + `]}}`),
		sends("a quantity of a billion digits", "POST /api/v1/namespaces/default/resourcequotas", 400).
			text(`{"metadata":{"name":"n"},"spec":{"hard":{"pods":"1e999999999"}}}`),
		sends("20,000 containers", "POST "+pods+"?dryRun=All", 422).
			text(`{"metadata":{"name":"n"},"spec":{"containers":[{}` + strings.Repeat(",{}", 19999) + `]}}`),
		sends("100,000 owners", "POST "+configs+"?dryRun=All", 422).
			text(`{"metadata":{"name":"n","ownerReferences":[{}` + strings.Repeat(",{}", 99999) + `]}}`),
		sends("100,000 managed fields", "POST "+configs+"?dryRun=All", 201).
			text(`{"metadata":{"name":"n","managedFields":[{}` + strings.Repeat(",{}", 99999) + `]}}`),
		sends("a long token to review", "POST /apis/authentication.k8s.io/v1/tokenreviews", 201).
			text(`{"spec":{"token":"` + strings.Repeat("a.", 1400000) + `"}}`),
		sends("a long request for a certificate", "POST /apis/certificates.k8s.io/v1/certificatesigningrequests?dryRun=All", 422).
			text(`{"metadata":{"name":"c"},"spec":{"signerName":"a/b","usages":["client auth"],"request":"` + strings.Repeat("LS0t", 700000) + `"}}`),
	}
	return cases
}

func varint(n int) string { return string(binary.AppendUvarint(nil, uint64(n))) }

func field(number int, content string) string {
	return varint(number<<3|2) + varint(len(content)) + content
}

// nestedDefinition is a CustomResourceDefinition whose schema is nested until it has n bytes.
func nestedDefinition(n int) string {
	// JSONSchemaProps.not is field 30; encoded from the innermost outwards.
	size, levels := 0, []int{}
	for size < n {
		levels = append(levels, size)
		size += len(varint(30<<3|2)) + len(varint(size))
	}
	var b strings.Builder
	for i := len(levels) - 1; i >= 0; i-- {
		b.WriteString(varint(30<<3|2) + varint(levels[i]))
	}
	version := field(1, "v1") + "\x10\x01\x18\x01" + field(4, field(1, b.String()))
	names := field(1, "as") + field(2, "a") + field(4, "A") + field(5, "AList")
	spec := field(1, "x.example.com") + field(3, names) + field(4, "Namespaced") + field(7, version)
	meta := field(1, "as.x.example.com")
	return "k8s\x00" + field(1, field(1, "apiextensions.k8s.io/v1")+field(2, "CustomResourceDefinition")) + field(2, field(1, meta)+field(2, spec))
}

func revisionOf(data string) string {
	return "k8s\x00" + field(1, field(1, "apps/v1")+field(2, "ControllerRevision")) + field(2, field(1, field(1, "r"))+field(2, field(1, data))+"\x18\x01")
}

func hostileQueries() []hostile {
	get := func(name, query string, code int) hostile {
		return hostile{name: name, request: "GET " + configs + "?" + query, code: code}
	}
	with := func(name, header, value string, code int) hostile {
		return hostile{name: name, request: "GET " + configs, headers: map[string]string{header: value}, code: code}
	}
	q := url.QueryEscape
	return []hostile{
		get("a selector of 100,000 values", "labelSelector="+q("a in ("+numbered(60000, "v%d", ",")+")"), 200),
		get("a selector of 50,000 requirements", "labelSelector="+q(numbered(50000, "k%d", ",")), 200),
		get("a selector of many parentheses", "labelSelector="+strings.Repeat("(", 300000), 400),
		get("a field selector of 50,000 requirements", "fieldSelector="+q(numbered(20000, "metadata.name!=v%d", ",")), 200),
		get("a long continue token", "limit=1&continue="+strings.Repeat("A", 900000), 400),
		get("many parameters", strings.Repeat("a=1&", 220000), 200),
		get("many values of a parameter", strings.Repeat("fieldManager=1&", 60000), 200),
		with("an Accept of 100,000 types", "Accept", numbered(40000, "a/b%d;q=0.5", ","), 406),
		with("an Accept of 300,000 commas", "Accept", strings.Repeat(",", 900000), 406),
		with("an Accept of many parameters", "Accept", "application/json"+strings.Repeat(";as=Table", 90000), 406),
		with("an Accept-Encoding of 300,000 names", "Accept-Encoding", strings.Repeat("x,", 400000), 200),
		with("a long User-Agent", "User-Agent", strings.Repeat("x", 900000), 200),
		with("a long path to impersonate", "Impersonate-User", strings.Repeat("x", 900000), 403),
		get("a limit beyond int64", "limit=99999999999999999999", 400),
		get("a long resourceVersion", "resourceVersion="+strings.Repeat("9", 900000), 400),
		{name: "a path of 300,000 parts", request: "GET " + strings.Repeat("/a", 300000), code: 404},
		{name: "a path of 300,000 dots", request: "GET /api" + strings.Repeat("/..", 300000), code: 404},
	}
}

func hostilePatches() []hostile {
	patch := func(name, path, media, body string, code int) hostile {
		return (hostile{name: name, request: "PATCH " + path, code: code}).as(media).text(body)
	}
	const asPatch, asMerge, asStrategic, asApply = "application/json-patch+json", "application/merge-patch+json", "application/strategic-merge-patch+json", "application/apply-patch+yaml"
	a, p := configs+"/a?dryRun=All", pods+"/p?dryRun=All"
	ops := func(n int, format string) string { return "[" + numbered(n, format, ",") + "]" }
	env := func(n int, format string) string {
		return `{"spec":{"containers":[{"name":"c","env":[` + numbered(n, format, ",") + `]}]}}`
	}
	return []hostile{
		patch("10,001 operations", a, asPatch, ops(10001, `{"op":"add","path":"/data/k%d","value":"v"}`), 413),
		patch("copies of copies", a, asPatch, ops(30, `{"op":"copy","from":"/data","path":"/data/k%d"}`), 422),
		patch("10,000 copies", a, asPatch, ops(10000, `{"op":"copy","from":"/data/k","path":"/data/k%d"}`), 422),
		patch("10,000 moves", a, asPatch, ops(10000, `{"op":"test","path":"/data/k","value":"`+strings.Repeat("v", 200)+`%d"}`), 422),
		patch("10,000 tests of everything", a, asPatch, ops(10000, `{"op":"test","path":"/metadata/x%d","value":null}`), 200),
		patch("3,000 first elements", a, asPatch, `[{"op":"add","path":"/metadata/finalizers","value":[]},`+numbered(2999, `{"op":"add","path":"/metadata/finalizers/0","value":"a/f%d"}`, ",")+"]", 200),
		patch("an index beyond", a, asPatch, `[{"op":"add","path":"/metadata/finalizers","value":[]},{"op":"add","path":"/metadata/finalizers/999999999","value":"a/b"}]`, 422),
		patch("a long pointer", a, asPatch, `[{"op":"add","path":"`+strings.Repeat("/a", 500000)+`","value":"a/b"}]`, 422),
		patch("a nested merge patch", a, asMerge, strings.Repeat(`{"data":`, 300000), 400),
		patch("a nested merge patch that ends", a, asMerge, strings.Repeat(`{"data":`, 9990)+"1"+strings.Repeat("}", 9990), 413),
		patch("a nested strategic patch", p, asStrategic, strings.Repeat(`{"spec":`, 9990)+"1"+strings.Repeat("}", 9990), 413),
		patch("a strategic patch of 30,000 other variables", p, asStrategic, env(30000, `{"name":"x%d"}`), 413),
		patch("a strategic patch that deletes 30,000 others", p, asStrategic, env(30000, `{"$patch":"delete","name":"x%d"}`), 413),
		patch("a strategic patch that orders 100,000", p, asStrategic, `{"spec":{"containers":[{"name":"c","$setElementOrder/env":[`+numbered(100000, `{"name":"x%d"}`, ",")+`],"env":[`+numbered(1000, `{"name":"x%d","value":"1"}`, ",")+`]}]}}`, 413),
		patch("a strategic patch of one variable of 30,000", p, asStrategic, env(1, `{"name":"e2999%d"}`), 413),
		patch("a strategic patch of 300,000 finalizers", configs+"/f?dryRun=All", asStrategic, `{"metadata":{"finalizers":[`+numbered(300000, `"%d"`, ",")+`]}}`, 413),
		patch("a strategic patch of 5,000 other blocks", fences+"/n?dryRun=All", asStrategic, "{"+policyOf(numbered(5000, `{"ipBlock":{"cidr":"fd01::%d/128"}}`, ","))+"}", 200),
		patch("an apply of aliases", configs+"/b?fieldManager=m&dryRun=All", asApply, laughs(12), 400),
		patch("an apply that is nested", configs+"/b?fieldManager=m&dryRun=All", asApply, strings.Repeat("{a: ", 700000), 400),
		patch("an apply of 10,000 variables", pods+"/p2?fieldManager=m&dryRun=All", asApply, "apiVersion: v1\nkind: Pod\nmetadata: {name: p2}\nspec: {containers: [{name: c, image: i, env: ["+numbered(10000, "{name: e%d}", ",")+"]}]}", 201),
		patch("an apply of the same variable", pods+"/p2?fieldManager=m&dryRun=All", asApply, "apiVersion: v1\nkind: Pod\nmetadata: {name: p2}\nspec: {containers: [{name: c, image: i, env: ["+strings.Repeat("{name: e},", 10000)+"]}]}", 500),
	}
}

func hostileExpressions() []hostile {
	define := func(name, kind, schema string, code int) hostile {
		return (hostile{name: name, request: "POST " + crds, code: code}).text(fmt.Sprintf(`{"metadata":{"name":"%ss.x.example.com"},"spec":{"group":"x.example.com","scope":"Namespaced",
			"names":{"plural":"%ss","singular":"%s","kind":"%s","listKind":"%sList"},"versions":[{"name":"v1","served":true,"storage":true,"schema":{"openAPIV3Schema":{"type":"object","properties":{"spec":%s}}}}]}}`,
			kind, kind, kind, strings.ToUpper(kind), strings.ToUpper(kind), schema))
	}
	rule := func(rule string) string {
		return fmt.Sprintf(`{"type":"object","properties":{"l":{"type":"array","items":{"type":"string"}}},"x-kubernetes-validations":[{"rule":%q}]}`, rule)
	}
	policy := func(name, id, expression string, code int) hostile {
		return (hostile{name: name, request: "POST /apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies?dryRun=All", code: code}).text(fmt.Sprintf(
			`{"metadata":{"name":%q},"spec":{"matchConstraints":{"resourceRules":[{"apiGroups":[""],"apiVersions":["v1"],"operations":["*"],"resources":["configmaps"]}]},"validations":[%s]}}`, id, expression))
	}
	return []hostile{
		define("a rule of nested loops", "a", rule("self.l.all(a, self.l.all(b, self.l.all(c, self.l.all(d, a+b+c+d != ''))))"), 422),
		define("a rule of many parentheses", "b", rule(strings.Repeat("(", 100000)+"true"+strings.Repeat(")", 100000)), 422),
		define("a rule of many negations", "c", rule(strings.Repeat("!", 90000)+"true"), 201),
		define("a rule of many sums", "d", rule("1"+strings.Repeat("+1", 40000)+" > 0"), 422),
		define("1,000 rules", "e", `{"type":"object","x-kubernetes-validations":[`+numbered(1000, `{"rule":"%d > 0"}`, ",")+`]}`, 201),
		define("a pattern that is repeated", "f", `{"type":"string","pattern":"((a{0,100}){0,100}){0,100}"}`, 422),
		define("a long pattern", "g", `{"type":"string","pattern":"`+strings.Repeat("(a|b)*", 50000)+`"}`, 201),
		define("a nested schema", "h", strings.Repeat(`{"type":"object","properties":{"a":`, 3000)+`{"type":"string"}`+strings.Repeat("}}", 3000), 201),
		define("a wide schema", "i", `{"type":"object","properties":{`+numbered(5000, `"p%d":{"type":"string"}`, ",")+`}}`, 201),
		define("an enum of 50,000", "j", `{"type":"string","enum":[`+numbered(50000, `"e%d"`, ",")+`]}`, 201),
		define("a pattern that is slow", "k", `{"type":"object","properties":{"s":{"type":"string","pattern":"^(([a-z])+.)+[A-Z]([a-z])+([a-z]{1,900}){1}$"}}}`, 201),
		sends("a value for the slow pattern", "POST /apis/x.example.com/v1/namespaces/default/ks?dryRun=All", 422).text(`{"apiVersion":"x.example.com/v1","kind":"K","metadata":{"name":"k"},"spec":{"s":"` + strings.Repeat("a", 300000) + `"}}`),
		policy("a policy of 1,000 validations", "p1", numbered(1000, `{"expression":"object.metadata.name != '%d'"}`, ","), 201),
		policy("a policy of nested loops", "p2", `{"expression":"object.data.all(a, object.data.all(b, object.data.all(c, a+b+c != '')))"}`, 201),
	}
}

func sends(name, request string, code int) hostile {
	return hostile{name: name, request: request, code: code}
}
