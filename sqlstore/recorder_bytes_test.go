package sqlstore

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"k8s.io/apiserver/pkg/authentication/user"
	genericapirequest "k8s.io/apiserver/pkg/endpoints/request"

	"github.com/rowlock/rowlock/resources"
)

// A step that ends for the bytes of its changes knows that there are more, whatever the bytes are of: of authors, or of
// objects that are not kept.
func TestObjectHistoryOfLargeChanges(t *testing.T) {
	withHistory(t, func(t *testing.T, open func(ObjectHistory) *Store, _ interface{ Step(time.Duration) }) {
		s := open(ObjectHistory{Age: time.Hour})
		ctx := genericapirequest.WithUser(t.Context(), &user.DefaultInfo{Name: strings.Repeat("u", 300)})
		size := `"size":"` + strings.Repeat("s", 10<<10) + `"`
		const each = 120
		for _, resource := range []string{"events", "widgets"} {
			for i := range each {
				if _, err := s.Commit(ctx, object(t, resource, "shop", fmt.Sprint("o", i), "u", size)); err != nil {
					t.Fatal(err)
				}
			}
		}
		if got := len(historyOf(t, s, resources.RevisionQuery{})); got != each {
			t.Errorf("the history has %d of %d writes", got, each)
		}
	})
}
