package sqlstore

import (
	"context"
	"strings"
)

// sqliteRows are the tables in which each value is to be of the type of its column, which SQLite does not see to, and what there is to do about one
// that is not.
var sqliteRows = []struct{ table, do string }{
	{"meta", doCopy}, {"objects", doRow}, {"changes", doLog}, {"revisions", doHistory}, {"recording", doHistory},
}

// sqliteValues looks whether all values are of the types of their columns.
func (v *verifier) sqliteValues(ctx context.Context) error {
	for _, t := range sqliteRows {
		statement, err := v.strangeValues(ctx, t.table)
		if err != nil {
			return err
		}
		if statement == "" {
			continue // tables of before have not all
		}
		strange, err := v.texts(ctx, statement)
		if err != nil {
			return err
		}
		for _, text := range strange {
			v.found(t.table, t.do, "has %s", text)
		}
	}
	return nil
}

// strangeValues returns the statement that finds rows with values of other types, in words; empty: there is no such table.
func (v *verifier) strangeValues(ctx context.Context, table string) (string, error) {
	var tests, words []string
	err := eachRow(v.tx.QueryContext(ctx, `SELECT name, lower(type), "notnull" FROM pragma_table_info($1)`, table))(func(scan func(...any) error) error {
		var name, kind string
		var notNull bool
		if err := scan(&name, &kind, &notNull); err != nil {
			return err
		}
		allowed := "'" + kind + "'"
		if !notNull {
			allowed += ", 'null'"
		}
		column := quotedList([]string{name})
		test := "typeof(" + column + ") NOT IN (" + allowed + ")"
		tests = append(tests, test)
		words = append(words, "CASE WHEN "+test+" THEN ' "+name+" is of the type ' || typeof("+column+") ELSE '' END")
		return nil
	})
	if err != nil || len(tests) == 0 {
		return "", err
	}
	return "SELECT 'row ' || rowid || ', in which' || " + strings.Join(words, " || ") + " FROM " + table + " WHERE " + strings.Join(tests, " OR ") + " LIMIT 100", nil
}
