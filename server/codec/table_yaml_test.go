package codec_test

import (
	"bytes"
	"io"
	"regexp"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/rowlock/rowlock/resources"
	"github.com/rowlock/rowlock/resources/fastpath"
	"github.com/rowlock/rowlock/server/codec"
)

// ages are cells with the time since something, which passes between two Tables.
var ages = regexp.MustCompile(`(?m)^  - \d+[smhdy]\w*$`)

// TestYAMLTablesAreStreamed compares Tables that are written row by row with those that are converted as a whole.
func TestYAMLTablesAreStreamed(t *testing.T) {
	t.Cleanup(fastpath.Streaming.Turn(true))
	const objects = 50
	eachSample(t, func(t *testing.T, s sample) {
		many := make([]*resources.Object, objects)
		for i := range many {
			many[i] = s.object
		}
		for _, include := range []metav1.IncludeObjectPolicy{metav1.IncludeNone, metav1.IncludeMetadata, metav1.IncludeObject} {
			f := codec.Format{Media: codec.YAML, As: codec.AsTable, AsVersion: "v1", Table: &metav1.TableOptions{IncludeObject: include}}
			var written [2]bytes.Buffer
			for i, on := range []bool{true, false} {
				fastpath.Streaming.Turn(on)
				list, err := codec.NewRenderer(s.served, f).List(many, metav1.ListMeta{ResourceVersion: "7"})
				if err != nil {
					t.Fatal(err)
				}
				var l largest
				if err := list.Write(io.MultiWriter(&written[i], &l)); err != nil {
					t.Fatal(err)
				}
				if on && l.piece > l.all*3/4 {
					t.Errorf("includeObject %s: %d of %d bytes are written at once", include, l.piece, l.all)
				}
			}
			if diff := cmp.Diff(ages.ReplaceAllString(written[1].String(), "  - age"), ages.ReplaceAllString(written[0].String(), "  - age")); diff != "" {
				t.Fatalf("includeObject %s (-whole +row by row):\n%s", include, diff)
			}
		}
	})
}
