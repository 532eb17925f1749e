package codec_test

import (
	"bytes"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/rowlock/rowlock/resources"
	"github.com/rowlock/rowlock/resources/builtin/builtintest"
	"github.com/rowlock/rowlock/resources/fastpath"
	"github.com/rowlock/rowlock/server/codec"
)

// Fallbacks of a fast path are counted while it is on. While it is off, it is not used at all.
func TestFallbacksOfObjects(t *testing.T) {
	t.Cleanup(fastpath.TurnAll(true))
	named := map[string]*resources.Served{}
	for _, s := range builtintest.StoredTypes(t) {
		named[s.GroupResource.String()] = s
	}
	secrets, pods, jobs, deployments := named["secrets"], named["pods"], named["cronjobs.batch"], named["deployments.apps"]
	whole, table := codec.Format{Media: codec.JSON}, codec.Format{Media: codec.JSON, As: codec.AsTable, AsVersion: "v1", Table: &metav1.TableOptions{IncludeObject: metav1.IncludeNone}}
	const name = `"metadata":{"name":"a","resourceVersion":"1"`
	const known, foreign = `{"kind":"Secret","apiVersion":"v1",` + name + `}}`, `{"apiVersion":"v1","kind":"Secret",` + name + `}}`
	const annotated = `{"kind":"Deployment","apiVersion":"apps/v1",` + name
	for _, c := range []struct {
		path        *fastpath.Path
		format      codec.Format
		served      *resources.Served
		plain, fast string
	}{
		{fastpath.StoredJSON, whole, secrets, foreign, known},
		{fastpath.StoredKind, table, secrets, foreign, known},
		{fastpath.Protobuf, codec.Format{Media: codec.Protobuf}, secrets, foreign, known},
		{fastpath.Cells, table, jobs, `{"kind":"CronJob","apiVersion":"batch/v1",` + name + `}}`, ""},
		{fastpath.Cells, table, pods, "", `{"kind":"Pod","apiVersion":"v1",` + name + `}}`},
		{fastpath.Metadata, codec.Format{Media: codec.JSON, As: codec.AsPartial, AsVersion: "v1"}, deployments,
			annotated + `,"annotations":{"` + deployments.FieldAnnotation + `":"1"}}}`, annotated + `}}`},
	} {
		for _, on := range []bool{true, false} {
			count := func(data string) int64 {
				defer c.path.Turn(on)()
				before := c.path.Fallbacks()
				o := resources.LoadObject(c.served.KeyOf("", "a"), 1, bytes.Clone([]byte(data)), nil, nil)
				if _, err := codec.NewRenderer(c.served, c.format).Object(o); err != nil {
					t.Fatal(err)
				}
				return c.path.Fallbacks() - before
			}
			if c.plain != "" {
				if n := count(c.plain); (n > 0) != on {
					t.Errorf("%s, on: %t: %d fallbacks were counted of %s", c.path.Name, on, n, c.plain)
				}
			}
			if c.fast != "" {
				if n := count(c.fast); n != 0 {
					t.Errorf("%s, on: %t: %d fallbacks of %s", c.path.Name, on, n, c.fast)
				}
			}
		}
	}
}
