package main

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// A custom resource whose stored version is no longer served is restored in one that is, if that takes no webhook. Otherwise the error names the remedy.
func TestRestoreOfAnUnservedVersion(t *testing.T) {
	dir, file := filepath.Join(t.TempDir(), "data"), filepath.Join(t.TempDir(), "backup")
	p := start(t, "--data-dir", dir)
	defer p.end()
	client := p.client(t)
	send(t, client, "POST", crds, `{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"widgets.example.com"},
		"spec":{"group":"example.com","scope":"Namespaced","names":{"plural":"widgets","kind":"Widget"},"versions":`+widgetVersions("v1")+`}}`)
	send(t, client, "POST", strings.Replace(widgets, "v2", "v1", 1), `{"apiVersion":"example.com/v1","kind":"Widget","metadata":{"name":"w"},"spec":{"n":1}}`)
	send(t, client, "PATCH", crds+"/widgets.example.com", `{"spec":{"versions":`+strings.Replace(widgetVersions("v2"), `"served":true`, `"served":false`, 1)+`}}`)
	before := send(t, client, "GET", widgets+"/w", "")
	runs(t, "backup", file, "--data-dir", dir)
	restore := []string{"restore", file, "--data-dir", dir, "--object", "widget/default/w"}
	if out := runs(t, restore...); !strings.Contains(out, "widgets.example.com/default/w: unchanged\n") {
		t.Errorf("of what is as it was: %s", out)
	}
	send(t, client, "DELETE", widgets+"/w", "")

	const conversion = `{"spec":{"conversion":{"strategy":"Webhook","webhook":{"conversionReviewVersions":["v1"],"clientConfig":{"url":"https://127.0.0.1:1/"}}}}}`
	send(t, client, "PATCH", crds+"/widgets.example.com", conversion)
	code, out, _ := command(t, restore...)
	if want := "widgets.example.com/default/w: cannot be taken back: the server does not serve example.com/v1, and a webhook converts it: " +
		"set served of that version in the definition of widgets.example.com for as long as the restore takes\n"; code != exitFailure || !strings.Contains(out, want) {
		t.Errorf("with a webhook: exit code %d, %s", code, out)
	}
	send(t, client, "PATCH", crds+"/widgets.example.com", `{"spec":{"conversion":{"strategy":"None","webhook":null}}}`)
	const said = "widgets.example.com/default/w: %created in the version v2, because that of the backup is not served\n"
	for _, would := range []string{"would be ", ""} {
		args := restore
		if would != "" {
			args = append(restore, "--dry-run")
		}
		if out, want := runs(t, args...), strings.Replace(said, "%", would, 1); !strings.Contains(out, want) {
			t.Errorf("it says %s, want %s", out, want)
		}
	}
	var was, now struct {
		Metadata metav1.ObjectMeta
		Spec     map[string]any
	}
	for text, into := range map[string]any{before: &was, send(t, client, "GET", widgets+"/w", ""): &now} {
		if err := json.Unmarshal([]byte(text), into); err != nil {
			t.Fatal(err)
		}
	}
	if managersOf(now.Metadata.ManagedFields) != managersOf(was.Metadata.ManagedFields) || len(was.Metadata.ManagedFields) == 0 || now.Spec["n"] != was.Spec["n"] {
		t.Errorf("it has %+v, had %+v", now, was)
	}
}
