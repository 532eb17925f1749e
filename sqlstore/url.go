package sqlstore

import (
	"errors"
	"fmt"
	"net/url"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

// ErrNoSchemas says that a kind of database has no schemas.
var ErrNoSchemas = errors.New("a SQLite database has no schemas")

func isPostgres(url string) bool {
	return strings.HasPrefix(url, "postgres://") || strings.HasPrefix(url, "postgresql://")
}

// CheckURL returns an error if the URL of a database is invalid. The error does not repeat what could be a password.
func CheckURL(database string) error {
	if isPostgres(database) {
		_, err := parsePostgres(database)
		return err
	}
	if path, ok := strings.CutPrefix(database, sqliteScheme); !ok || path == "" {
		return errors.New("the database must be a URL of the form sqlite:///path/to/file or postgres://user@host/database")
	}
	return nil
}

// parsePostgres parses the URL of a Postgres. Libpq's environment and its password and service files fill in what the
// URL leaves out.
func parsePostgres(database string) (*pgxpool.Config, error) {
	if _, err := url.Parse(database); err != nil || ambiguous(database) {
		return nil, errParts
	}
	config, err := pgxpool.ParseConfig(database)
	var parse *pgconn.ParseConfigError
	switch {
	case errors.As(err, &parse):
		// Its text repeats the URL first, and then has one line with the reason.
		text := parse.Error()
		text = text[strings.LastIndex(text, "`: ")+len("`: "):]
		if strings.HasPrefix(text, "failed to parse as URL") { // and repeats the part at which parsing failed
			return nil, errParts
		}
		return nil, fmt.Errorf("the URL of the database: %s", text)
	case err != nil:
		return nil, fmt.Errorf("the URL of the database: %w", err)
	}
	return config, nil
}

// errParts says that the parts of a URL, and so the password, cannot be told apart.
var errParts = errors.New("the URL cannot be parsed: in user and password, characters such as / : @ # ? % have to be " +
	"percent-encoded, and of several hosts all need a port or none; the directory of a Unix socket is given as in postgres:///database?host=/directory")

// ambiguous reports whether parsers may disagree on the @ that ends user and password: libpq and pgx take the first one
// before a slash, so the part of a password after that would become a host, or, after a slash, the name of a database.
// In parameters an @ has no meaning.
func ambiguous(database string) bool {
	_, rest, _ := strings.Cut(database, "://")
	end := strings.IndexAny(rest, "/?#")
	if end < 0 {
		end = len(rest)
	}
	authority, rest := rest[:end], rest[end:]
	path, _, _ := strings.Cut(rest, "?")
	if strings.Contains(path, "@") || strings.Count(authority, "@") > 1 {
		return true
	}
	return !strings.Contains(authority, "@") && !strings.HasPrefix(rest, "/") && strings.Contains(rest, "@")
}

// schemaMax is the longest name that Postgres keeps whole, in bytes.
const schemaMax = 63

// CheckSchema returns an error for the name of a schema that Postgres would change, so that two names could become one,
// or that it reserves. The empty name stands for the search path's. Errors: ErrNoSchemas, and others.
func CheckSchema(database, name string) error {
	switch {
	case name == "":
		return nil
	case !isPostgres(database):
		return ErrNoSchemas
	case len(name) > schemaMax:
		return fmt.Errorf("the name %q has %d bytes: Postgres would cut it to %d, and two could become one", name, len(name), schemaMax)
	case !utf8.ValidString(name) || strings.ContainsFunc(name, unicode.IsControl):
		return fmt.Errorf("the name %q has characters that do not reach Postgres as they are", name)
	case strings.HasPrefix(name, "pg_") || name == "$user" || name == "information_schema":
		return fmt.Errorf("the name %q means something else to Postgres", name)
	}
	return nil
}
