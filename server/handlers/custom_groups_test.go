package handlers_test

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/tidwall/gjson"

	"github.com/rowlock/rowlock/resources"
)

// The row that serializes the names of a group is removed with the group's last definition, and not before, despite concurrent creations and
// deletions of definitions.
func TestGroupRowsGo(t *testing.T) {
	onEveryDatabase(t, func(t *testing.T, a *api) {
		a.TB = t
		rows := func() (n int) {
			all, err := a.store.Snapshot(t.Context(), "crdgroups.rowlock.internal", resources.At{Match: resources.MostRecent})
			if err != nil {
				t.Fatal(err)
			}
			return all.Count("", "")
		}
		definition := func(i int) (name, body string) {
			plural := fmt.Sprintf("widgets%d", i)
			return definitions + "/" + plural + ".example.com", strings.NewReplacer("widgets", plural, `"Widget"`, fmt.Sprintf(`"Widget%d"`, i), `"wd"`, fmt.Sprintf(`"wd%d"`, i)).
				Replace(widgetDefinition(widgetVersion("v1", widgetSpec, true)))
		}
		remove := func(path string) {
			if code, answer := a.request("DELETE", path, "", nil); code != http.StatusOK {
				t.Errorf("%d %s", code, answer)
			}
			if code, answer := a.request("PATCH", path, `{"metadata":{"finalizers":null}}`, asMergePatch); code != http.StatusOK {
				t.Errorf("%d %s", code, answer)
			}
		}
		var work sync.WaitGroup
		for i := range 4 {
			work.Go(func() {
				path, body := definition(i)
				for range 3 {
					if code, answer := a.request("POST", definitions, body, nil); code != http.StatusCreated ||
						gjson.Get(answer, `status.conditions.#(type=="NamesAccepted").status`).Str != "True" {
						t.Errorf("%d %s", code, answer)
					}
					if n := rows(); n != 1 {
						t.Errorf("the group has %d rows while it has definitions", n)
					}
					remove(path)
				}
			})
		}
		work.Wait()
		if n := rows(); n != 0 {
			t.Errorf("%d rows are left", n)
		}
	})
}
