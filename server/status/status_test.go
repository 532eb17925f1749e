package status

import (
	"fmt"
	"net/http"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/rowlock/rowlock/resources"
)

// The error of a write to a full disk makes clients retry, and states the reason.
func TestFull(t *testing.T) {
	err := fmt.Errorf("%w: %w: database or disk is full (13)", resources.ErrUnavailable, resources.ErrFull)
	s := Of(ForRequest(err, schema.GroupResource{Resource: "configmaps"}, "a", "create"))
	const want = "The create operation against configmaps could not be completed at this time, please try again: the disk of the database is full"
	if s.Code != http.StatusInternalServerError || s.Reason != "ServerTimeout" || s.Message != want {
		t.Errorf("%d %s %s", s.Code, s.Reason, s.Message)
	}
}
