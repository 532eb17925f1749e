package sqlstore

import (
	"errors"
	"strings"
	"testing"
)

// An invalid URL yields an error that never contains a password.
func TestCheckURL(t *testing.T) {
	for url, want := range map[string]string{
		"sqlite:///var/lib/x.db":                                  "",
		"sqlite://x.db":                                           "",
		"postgres://u:geheim@h/db?sslmode=require":                "",
		"postgresql://h1:5432,h2:5433/db?user=u&password=geheim":  "",
		"postgres://u:geheim@h1:5432,h2:5433,h3/db":               "several hosts",
		"postgres://u:geheim@h1,h2,h3/db":                         "",
		"postgres:///db?host=/run/postgresql":                     "",
		"":                                                        "sqlite:///path/to/file",
		"sqlite://":                                               "sqlite:///path/to/file",
		"mysql://u:geheim@h/db":                                   "sqlite:///path/to/file",
		"host=h password=geheim":                                  "sqlite:///path/to/file",
		"postgres://u:ge/heim@h/db":                               "percent-encoded",
		"postgres://u:geheim%zz@h/db":                             "percent-encoded",
		"postgres://u:ge@heim@h/db":                               "percent-encoded",
		"postgres://u:ge@heim@h":                                  "percent-encoded",
		"postgres://u:ge@heim@h1:1,h2:2/db":                       "percent-encoded",
		"postgres://u:ge@1:heim@h/db":                             "percent-encoded",
		"postgres://u:12/heim@h/db":                               "percent-encoded",
		"postgres://u:12?heim@h/db":                               "percent-encoded",
		"postgres://u:12#heim@h/db":                               "percent-encoded",
		"postgres://u:12?ge/heim@h/db":                            "percent-encoded",
		"postgres://u:1/2?heim@h/db":                              "percent-encoded",
		"postgres://me@server:geheim@h/db":                        "percent-encoded",
		"postgres://u:ge%40heim@h/db":                             "",
		"postgres://u:geheim@h/db?application_name=a@b":           "",
		"postgres://h:1/?user=me@server&password=ge@heim":         "",
		"postgres://u:geheim@h/db?sslmode=perhaps":                "sslmode is invalid",
		"postgres://u@h/db?password=geheim&sslmode=perhaps":       "sslmode is invalid",
		"postgres://u:geheim@h:99999/db":                          "port",
		"postgres://u:geheim@h/db?target_session_attrs=sometimes": "target_session_attrs",
		"postgres://u:geheim@h/db?connect_timeout=soon":           "connect_timeout",
	} {
		err := CheckURL(url)
		switch {
		case want == "" && err != nil:
			t.Errorf("%s: %v", url, err)
		case want != "" && (err == nil || !strings.Contains(err.Error(), want)):
			t.Errorf("%s: got %v, want %q", url, err, want)
		case err != nil && strings.Contains(err.Error(), "heim"):
			t.Errorf("%s: the error tells the password: %v", url, err)
		}
	}
}

func TestCheckSchema(t *testing.T) {
	long := strings.Repeat("ü", 31) + "x" // 63 bytes
	for _, name := range []string{"", "a", "Team A", `"quoted"`, long} {
		if err := CheckSchema("postgres://h/db", name); err != nil {
			t.Errorf("%q: %v", name, err)
		}
	}
	for _, name := range []string{long + "x", "a\x00b", "a\nb", "\xff", "pg_temp", "$user", "information_schema"} {
		if err := CheckSchema("postgres://h/db", name); err == nil {
			t.Errorf("%q is taken", name)
		}
	}
	if err := CheckSchema("sqlite://x", "a"); !errors.Is(err, ErrNoSchemas) {
		t.Errorf("in SQLite: %v", err)
	}
}
