package handlers_test

import (
	"encoding/base64"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/tidwall/gjson"
)

// anyAnswer is a webhook that answers with a text, in which UID is that of the review. In the answer to a ConversionReview, VERSION is the version that
// is asked for, and OBJECT the uid of the object.
type anyAnswer struct {
	*httptest.Server
	text atomic.Pointer[string]
}

func newAnyAnswer(f *testing.F) *anyAnswer {
	f.Helper()
	v := &anyAnswer{}
	v.Server = httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		review, _ := io.ReadAll(r.Body)
		w.Header().Set("Content-Type", "application/json")
		asked := gjson.GetBytes(review, "request")
		_, _ = strings.NewReplacer("UID", asked.Get("uid").Str, "VERSION", asked.Get("desiredAPIVersion").Str, "OBJECT", asked.Get("objects.0.metadata.uid").Str).
			WriteString(w, *v.text.Load())
	}))
	f.Cleanup(v.Close)
	return v
}

// FuzzAdmissionAnswers sends any AdmissionReview and patch as the answers of a mutating webhook: the write fails, or the webhook has allowed it, and its
// object is one of the same type and namespace; as with kube-apiserver, its name may be another one.
func FuzzAdmissionAnswers(f *testing.F) {
	a, v := newAPI(f), newAnyAnswer(f)
	hook := &reviewer{Server: v.Server}
	a.run(exchange{do: "POST " + mutatingConfigurations, code: 201, body: webhooks("m", hook.webhook("/m", ruleFor("", "v1", "configmaps"), ""))})
	const allowed = `{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","response":{"uid":"UID","allowed":true%s}}`
	for _, patch := range []string{"", `[]`, `[{"op":"add","path":"/metadata/labels","value":{"a":"b"}}]`, `[{"op":"replace","path":"/metadata/name","value":"b"}]`, `[{"op":"remove","path":""}]`,
		`[{"op":"copy","from":"/metadata","path":"/data"}]`, `[{"op":"test","path":"/kind","value":null}]`, `null`, `{"a":1}`} {
		f.Add(fmt.Sprintf(allowed, `,"patchType":"JSONPatch","patch":"PATCH"`), patch)
	}
	f.Add(fmt.Sprintf(allowed, ""), "")
	f.Add(fmt.Sprintf(allowed, `,"warnings":["a\n\"",""],"auditAnnotations":{"a/b":"c"},"status":{"code":-1}`), "")
	f.Add(`{"response":null}`, "")
	f.Fuzz(func(t *testing.T, answer, patch string) {
		answer = strings.ReplaceAll(answer, "PATCH", base64.StdEncoding.EncodeToString([]byte(patch)))
		v.text.Store(&answer)
		w := a.answer(t, "POST", configMaps+"?dryRun=All", nil, `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"asked"}}`)
		if w.Code == http.StatusCreated {
			made := gjson.ParseBytes(w.Body.Bytes())
			if made.Get("metadata.name").Str == "" || made.Get("metadata.namespace").Str != "test" || made.Get("kind").Str != "ConfigMap" || !strings.Contains(answer, "true") {
				t.Errorf("%s %s: %s", answer, patch, w.Body)
			}
		} else if gjson.GetBytes(w.Body.Bytes(), "kind").Str != "Status" || w.Code < 400 {
			t.Errorf("%s %s: %d %s", answer, patch, w.Code, w.Body)
		}
	})
}

// FuzzConversionAnswers sends any ConversionReview as the answers to a write of a custom resource, which is converted to be stored and to be shown: the
// write fails, or its object is still the one that was written, in the version that was asked for.
func FuzzConversionAnswers(f *testing.F) {
	a, v := newAPI(f), newAnyAnswer(f)
	hook := &converter{Server: v.Server}
	a.run(exchange{do: "POST " + definitions, body: hook.definition("v1"), code: 201})
	const review = `{"apiVersion":"apiextensions.k8s.io/v1","kind":"ConversionReview","response":{"uid":"UID","result":{"status":"Success"},"convertedObjects":[%s]}}`
	const widget, dry = `{"apiVersion":"VERSION","kind":"Widget","metadata":%s}`, widgetsAsV2 + "?dryRun=All"
	converted := fmt.Sprintf(review, fmt.Sprintf(widget, `{"name":"a","namespace":"test","uid":"OBJECT"},"spec":{"one":1}`))
	v.text.Store(&converted)
	a.run(exchange{do: "POST " + dry, body: widgetAsV2("a", `{"other":1}`), code: 201, says: says{"apiVersion": "example.com/v2", "metadata.name": "a"}})
	f.Add(converted)
	f.Add(strings.ReplaceAll(converted, "VERSION", "example.com/v1"))
	for _, object := range []string{"", "null", "{}", "[]", fmt.Sprintf(widget, "null"), fmt.Sprintf(widget, `{"name":"b","namespace":"test","uid":"OBJECT"}`),
		fmt.Sprintf(widget, `{"name":"a","namespace":"test","uid":"OBJECT","labels":{"-":7}}`)} {
		f.Add(fmt.Sprintf(review, object))
	}
	f.Add(`{"apiVersion":"apiextensions.k8s.io/v1","kind":"ConversionReview","response":{"uid":"UID","result":{"status":"Failure","message":"no"}}}`)
	f.Fuzz(func(t *testing.T, answer string) {
		v.text.Store(&answer)
		w := a.answer(t, "POST", dry, nil, widgetAsV2("a", `{"other":1}`))
		if w.Code == http.StatusCreated {
			made := gjson.ParseBytes(w.Body.Bytes())
			if made.Get("metadata.name").Str != "a" || made.Get("kind").Str != "Widget" || made.Get("apiVersion").Str != "example.com/v2" {
				t.Errorf("%s: %s", answer, w.Body)
			}
		} else if gjson.GetBytes(w.Body.Bytes(), "kind").Str != "Status" || w.Code < 400 {
			t.Errorf("%s: %d %s", answer, w.Code, w.Body)
		}
	})
}

// FuzzImageReviews sends any ImageReview as the answer about the images of a Pod: one that does not allow them creates no Pod.
func FuzzImageReviews(f *testing.F) {
	v := newAnyAnswer(f)
	a := configured(f, map[string]string{"ImagePolicyWebhook": fmt.Sprintf(`{imagePolicy: {kubeConfigFile: %s, allowTTL: 1, denyTTL: 1, retryBackoff: 1, defaultAllow: false}}`,
		kubeconfigFor(f, v.Server, "u", "secret"))}, "ImagePolicyWebhook")
	for _, status := range []string{`{"allowed":true,"auditAnnotations":{"a":"b"}}`, `{"allowed":false,"reason":"no"}`, `null`, `[]`} {
		f.Add(`{"apiVersion":"imagepolicy.k8s.io/v1alpha1","kind":"ImageReview","status":` + status + `}`)
	}
	f.Add(`{"kind":"Status","apiVersion":"v1","status":"Failure","code":500,"reason":"InternalError"}`)
	image := 0
	f.Fuzz(func(t *testing.T, answer string) {
		v.text.Store(&answer)
		image++ // reviews are cached by image
		w := a.answer(t, "POST", strings.TrimPrefix(podsOfTest, "POST ")+"?dryRun=All", nil, strings.Replace(podOf("a", ""), `"i"`, fmt.Sprintf(`"i%d"`, image), 1))
		if w.Code != http.StatusCreated && w.Code != http.StatusForbidden || w.Code == http.StatusCreated && !strings.Contains(answer, "true") {
			t.Errorf("%s: %d %s", answer, w.Code, w.Body)
		}
	})
}
