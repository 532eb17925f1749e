package pki

import (
	"bytes"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/rowlock/rowlock/resources"
	"github.com/rowlock/rowlock/sqlstore/sqlitetest"
)

// CheckFiles finds the files with which no server starts, and no others, and it changes nothing.
func TestCheckFiles(t *testing.T) {
	c := newClock()
	good, other := t.TempDir(), t.TempDir()
	for _, dir := range []string{good, other} {
		mustTokenKeys(t, mustOpen(t, testOptions(dir, c)), TokenKeyOptions{})
	}
	of := func(dir, name string) string { return string(read(t, filepath.Join(dir, "pki", name))) }
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
		"an interrupted replacement":          {map[string]string{"ca.key": of(other, "ca.key"), "ca.next.pem": of(other, "ca.key") + of(other, "ca.crt")}, ""},
		"a replacement of an empty key":       {map[string]string{"front-proxy-ca.key": "", "front-proxy-ca.next.pem": of(other, "ca.key") + of(other, "ca.crt")}, "pki/front-proxy-ca.key"},
		"half a replacement":                  {map[string]string{"ca.next.pem": of(other, "ca.key")}, "pki/ca.next.pem"},
		"a replacement with another key":      {map[string]string{"front-proxy-ca.next.pem": of(good, "ca.key") + of(other, "ca.crt")}, "pki/front-proxy-ca.next.pem"},
		"no keys of tokens":                   {map[string]string{"sa.key": gone}, ""},
		"empty keys of tokens":                {map[string]string{"sa.key": ""}, "pki/sa.key"},
		"keys of tokens that cannot sign":     {map[string]string{"sa.key": of(good, "ca.crt")}, "pki/sa.key"},
		"an authority of clients":             {map[string]string{"client-ca.crt": of(other, "ca.crt")}, ""},
		"an authority of clients that is not": {map[string]string{"client-ca.crt": "x"}, "pki/client-ca.crt"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := damaged(t, good, tc.files)
			before := allFiles(t, dir)
			var found []string
			CheckFiles(dir, nil, false, func(file string, err error, do string) {
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
	CheckFiles(filepath.Join(t.TempDir(), "none"), nil, false, func(file string, err error, _ string) { t.Errorf("where nothing is: %s: %v", file, err) })
}

// gone is the content of files that are not there.
const gone = "-"

// damaged returns a copy of a data directory in which some files below pki/ have another content.
func damaged(t *testing.T, good string, with map[string]string) (dir string) {
	t.Helper()
	dir = t.TempDir()
	if err := os.CopyFS(dir, os.DirFS(good)); err != nil {
		t.Fatal(err)
	}
	for file, text := range with {
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
	return dir
}

// Where servers share a database that has the authority, it takes the place of files that do not fit, and of no other damaged ones. A server that
// has such a database for itself does not start with them.
func TestCheckFilesOfSharedDatabase(t *testing.T) {
	good, other, store := t.TempDir(), t.TempDir(), sqlitetest.Open(t)
	openShared(t, good, store, &bytes.Buffer{})
	mustOpen(t, testOptions(other, newClock()))
	misfit := string(read(t, filepath.Join(other, "pki", "ca.key")))
	for name, tc := range map[string]struct {
		key    string
		stored []string
		shared bool
		want   string // what the finding says; empty: there is none
	}{
		"shared":                {misfit, Authorities(), true, ""},
		"shared, an empty key":  {"", Authorities(), true, "no server starts with it: "},
		"of one server":         {misfit, Authorities(), false, "no server on SQLite starts with it: "},
		"shared, without a row": {misfit, nil, true, "no server starts with it: "},
		"shared, the other row": {misfit, []string{proxyAuthority.name}, true, "no server starts with it: "},
	} {
		t.Run(name, func(t *testing.T) {
			dir, said := damaged(t, good, map[string]string{"ca.key": tc.key}), ""
			CheckFiles(dir, tc.stored, tc.shared, func(_ string, _ error, do string) { said += do })
			if said == "" != (tc.want == "") || !strings.HasPrefix(said, tc.want) {
				t.Errorf("the finding is %q, want %q", said, tc.want)
			}
			rows := resources.NewRows(store)
			o := Options{DataDir: dir, Names: []string{"localhost"}, Left: rows}
			switch {
			case tc.shared && len(tc.stored) == len(Authorities()):
				o.Shared, o.Left = rows, nil
			case tc.shared: // the database has no such row
				o.Shared, o.Left = resources.NewRows(sqlitetest.Open(t)), nil
			}
			if _, err := Open(o); (err == nil) != (tc.want == "") {
				t.Errorf("a server starts: %v", err)
			}
		})
	}
}

// Files in whose place the user can give others are said to be needed only without these.
func TestCheckFilesThatFlagsReplace(t *testing.T) {
	good, given := t.TempDir(), filepath.Join(t.TempDir(), "sa.key")
	mustTokenKeys(t, mustOpen(t, testOptions(good, newClock())), TokenKeyOptions{})
	if err := os.WriteFile(given, read(t, filepath.Join(good, "pki", "sa.key")), 0o600); err != nil {
		t.Fatal(err)
	}
	dir := damaged(t, good, map[string]string{"sa.key": "x", "client-ca.crt": "x"})
	said := map[string]string{}
	CheckFiles(dir, nil, false, func(file string, _ error, do string) { said[file], _, _ = strings.Cut(do, ":") })
	if want := map[string]string{"pki/sa.key": "no server starts with it unless --service-account-signing-key-file is given",
		"pki/client-ca.crt": "no server starts with it unless --client-ca-file is given"}; !maps.Equal(said, want) {
		t.Errorf("said is %q", said)
	}
	o := testOptions(dir, newClock())
	o.ClientCAFile = filepath.Join(good, "pki", "ca.crt")
	mustTokenKeys(t, mustOpen(t, o), TokenKeyOptions{Issuer: "https://x", SigningKeyFile: given})
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
