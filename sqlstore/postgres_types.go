package sqlstore

import (
	"context"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"
)

// registerTypes tells a connection what the Go types of the store's parameters are in Postgres. Behind a pooler nothing is
// prepared, so that pgx has to know it by itself, and its own list of some hundred types is not linked.
func registerTypes(_ context.Context, conn *pgx.Conn) error {
	m := conn.TypeMap()
	registerType[int64](m, "int8")
	registerType[int](m, "int8")
	registerType[int32](m, "int4")
	registerType[float64](m, "float8")
	registerType[bool](m, "bool")
	registerType[string](m, "text")
	registerType[[]byte](m, "bytea")
	return nil
}

// registerType registers a type, and rows of it, with or without NULL.
func registerType[T any](m *pgtype.Map, name string) {
	var value T
	m.RegisterDefaultPgType(value, name)
	m.RegisterDefaultPgType(&value, name)
	m.RegisterDefaultPgType([]T(nil), "_"+name)
	m.RegisterDefaultPgType([]*T(nil), "_"+name)
}
