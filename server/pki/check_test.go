package pki

import (
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// CheckFiles finds the files with which no server starts, and no others, and it changes nothing.
func TestCheckFiles(t *testing.T) {
	c := newClock()
	good, other := t.TempDir(), t.TempDir()
	for _, dir := range []string{good, other} {
		mustTokenKeys(t, mustOpen(t, testOptions(dir, c)), TokenKeyOptions{})
	}
	of := func(dir, name string) string { return string(read(t, filepath.Join(dir, "pki", name))) }
	const gone = "-"
	for name, tc := range map[string]struct {
		files map[string]string
		want  string // where the finding is
	}{
		"nothing":                             {nil, ""},
		"an empty key":                        {map[string]string{"ca.key": ""}, "pki/ca.key"},
		"half a key":                          {map[string]string{"ca.key": of(good, "ca.key")[:60]}, "pki/ca.key"},
		"the key of another authority":        {map[string]string{"ca.key": of(other, "ca.key")}, "pki/ca.key"},
		"the certificate of another one":      {map[string]string{"front-proxy-ca.crt": of(other, "front-proxy-ca.crt")}, "pki/front-proxy-ca.key"},
		"an empty certificate":                {map[string]string{"ca.crt": ""}, "pki/ca.key"},
		"no key":                              {map[string]string{"ca.key": gone}, "pki/ca.key"},
		"no certificate":                      {map[string]string{"ca.crt": gone}, ""},
		"neither":                             {map[string]string{"ca.crt": gone, "ca.key": gone}, ""},
		"a broken front proxy":                {map[string]string{"front-proxy-ca.key": "x"}, "pki/front-proxy-ca.key"},
		"serving certificates are replaced":   {map[string]string{"apiserver.key": "", "front-proxy-client.crt": "x"}, ""},
		"a replacement":                       {map[string]string{"ca.next.pem": of(other, "ca.key") + of(other, "ca.crt")}, ""},
		"half a replacement":                  {map[string]string{"ca.next.pem": of(other, "ca.key")}, "pki/ca.next.pem"},
		"a replacement with another key":      {map[string]string{"front-proxy-ca.next.pem": of(good, "ca.key") + of(other, "ca.crt")}, "pki/front-proxy-ca.next.pem"},
		"no keys of tokens":                   {map[string]string{"sa.key": gone}, ""},
		"empty keys of tokens":                {map[string]string{"sa.key": ""}, "pki/sa.key"},
		"keys of tokens that cannot sign":     {map[string]string{"sa.key": of(good, "ca.crt")}, "pki/sa.key"},
		"an authority of clients":             {map[string]string{"client-ca.crt": of(other, "ca.crt")}, ""},
		"an authority of clients that is not": {map[string]string{"client-ca.crt": "x"}, "pki/client-ca.crt"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			if err := os.CopyFS(dir, os.DirFS(good)); err != nil {
				t.Fatal(err)
			}
			for file, text := range tc.files {
				path := filepath.Join(dir, "pki", file)
				if err := os.Remove(path); err != nil && !os.IsNotExist(err) {
					t.Fatal(err)
				}
				if text != gone {
					if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
						t.Fatal(err)
					}
				}
			}
			before := allFiles(t, dir)
			var found []string
			CheckFiles(dir, func(file string, err error, do string) {
				found = append(found, file)
				if err == nil || do == "" {
					t.Errorf("%s: %v, %q", file, err, do)
				}
			})
			if strings.Join(found, " ") != tc.want {
				t.Errorf("found %q, want %q", found, tc.want)
			}
			if after := allFiles(t, dir); !maps.Equal(before, after) {
				t.Errorf("there are %q now", slices.Sorted(maps.Keys(after)))
			}
			p, err := Open(testOptions(dir, c))
			if err == nil {
				_, err = p.TokenKeys(TokenKeyOptions{})
			}
			if started := err == nil; started != (tc.want == "") {
				t.Errorf("a server starts: %t, %v", started, err)
			}
		})
	}
	CheckFiles(filepath.Join(t.TempDir(), "none"), func(file string, err error, _ string) { t.Errorf("where nothing is: %s: %v", file, err) })
}

// allFiles returns the files of a directory with their content.
func allFiles(t *testing.T, dir string) map[string]string {
	t.Helper()
	all := map[string]string{}
	if err := fs.WalkDir(os.DirFS(dir), ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		all[path] = string(read(t, filepath.Join(dir, path)))
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	return all
}
