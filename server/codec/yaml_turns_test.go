package codec

import (
	"strings"
	"testing"
	"testing/synctest"
)

// TestLongAnswersTakeTurns holds all turns while an answer is to be converted to YAML.
func TestLongAnswersTakeTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		turns := longYAMLs
		longYAMLs = make(chan struct{}, MostLongYAML)
		defer func() { longYAMLs = turns }()
		for range MostLongYAML {
			longYAMLs <- struct{}{}
		}
		converted := make(chan error, 1)
		go func() {
			_, err := ToYAML([]byte(`{"a":"` + strings.Repeat("b", LongYAML) + `"}`))
			converted <- err
		}()
		synctest.Wait()
		if len(converted) > 0 {
			t.Error("a long answer did not wait for its turn")
		}
		if _, err := ToYAML([]byte(`{"a":"b"}`)); err != nil {
			t.Error(err)
		}
		<-longYAMLs
		if err := <-converted; err != nil {
			t.Error(err)
		}
		if len(longYAMLs) != MostLongYAML-1 {
			t.Errorf("%d turns are taken, want %d", len(longYAMLs), MostLongYAML-1)
		}
	})
}
