package openapi

import "testing"

// A definition may have a description like that of what stands for a schema.
func TestImitatedStandIns(t *testing.T) {
	texts := storedTexts{[]byte(`{"type":"object"}`)}
	const in = `{"a":{"description":"rowlock.internal/schema/0"},"b":{"description":"rowlock.internal/schema/7"},"c":{"description":"rowlock.internal/schema/x"},"d":{"description":"rowlock.internal/schema/-1"}}`
	const want = `{"a":{"type":"object"},"b":{"description":"rowlock.internal/schema/7"},"c":{"description":"rowlock.internal/schema/x"},"d":{"description":"rowlock.internal/schema/-1"}}`
	if got := string(texts.fill([]byte(in))); got != want {
		t.Error(got)
	}
}
