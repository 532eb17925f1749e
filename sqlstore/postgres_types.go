package sqlstore

import (
	"bytes"
	"context"
	"encoding/hex"
	"fmt"
	"strconv"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"
)

// registerTypes tells a connection the Postgres types of the store's parameters. Behind a pooler nothing is prepared,
// so pgx has to know the types itself; its own list of some hundred types is not linked.
func registerTypes(_ context.Context, conn *pgx.Conn) error {
	m := conn.TypeMap()
	m.RegisterType(&pgtype.Type{Name: "bytea", OID: pgtype.ByteaOID, Codec: byteaCodec{}})
	registerType[int64](m, "int8")
	registerType[int](m, "int8")
	registerType[int32](m, "int4")
	registerType[float64](m, "float8")
	registerType[bool](m, "bool")
	registerType[string](m, "text")
	registerType[[]byte](m, "bytea")
	return nil
}

// registerType registers a type, and slices of it, with or without NULL.
func registerType[T any](m *pgtype.Map, name string) {
	var value T
	m.RegisterDefaultPgType(value, name)
	m.RegisterDefaultPgType(&value, name)
	m.RegisterDefaultPgType([]T(nil), "_"+name)
	m.RegisterDefaultPgType([]*T(nil), "_"+name)
}

// byteaCodec extends pgx's codec, which reads only the hexadecimal text form of bytea, by the older form, which
// databases and roles can be set to (bytea_output = escape). Text is sent when nothing is prepared. It supports scans
// into a []byte, which are the only ones here.
type byteaCodec struct{ pgtype.ByteaCodec }

// PlanScan implements pgtype.Codec.
func (c byteaCodec) PlanScan(m *pgtype.Map, oid uint32, format int16, target any) pgtype.ScanPlan {
	plan := c.ByteaCodec.PlanScan(m, oid, format, target)
	if plan == nil || format != pgtype.TextFormatCode {
		return plan
	}
	return escapedPlan{plan}
}

// escapedPlan converts the older form to hexadecimal for the wrapped plan.
type escapedPlan struct{ pgtype.ScanPlan }

// Scan implements pgtype.ScanPlan.
func (p escapedPlan) Scan(src []byte, target any) error {
	if src != nil && !bytes.HasPrefix(src, []byte(`\x`)) { // the older form never begins with a backslash before an x
		data, err := unescapeBytea(src)
		if err != nil {
			return err
		}
		src = hex.AppendEncode([]byte(`\x`), data)
	}
	return p.ScanPlan.Scan(src, target)
}

// unescapeBytea reads the older text form of bytea: a backslash is doubled, and other bytes are literal or a backslash
// with three octal digits (Postgres' manual, 8.4.2).
func unescapeBytea(text []byte) (data []byte, err error) {
	data = make([]byte, 0, len(text))
	for i := 0; i < len(text); i++ {
		switch rest := text[i+1:]; {
		case text[i] != '\\':
			data = append(data, text[i])
		case bytes.HasPrefix(rest, []byte(`\`)):
			data = append(data, '\\')
			i++
		default:
			n, err := strconv.ParseUint(string(rest[:min(3, len(rest))]), 8, 8)
			if err != nil || len(rest) < 3 {
				return nil, fmt.Errorf("bytea: an escape sequence is none at byte %d", i)
			}
			data = append(data, byte(n))
			i += 3
		}
	}
	return data, nil
}
