package handlers

import (
	"slices"
	"testing"
)

// Each function is called once, in order, even if others panic.
func TestLaterTellsAll(t *testing.T) {
	var told []int
	var l Later
	for i := range 4 {
		l.Do(func(any) {
			told = append(told, i)
			if i == 1 {
				panic("one of them")
			}
		})
	}
	func() {
		defer func() {
			if p := recover(); p != "one of them" {
				t.Errorf("the panic is %v", p)
			}
		}()
		l.over(nil)
	}()
	if l.over(nil); !slices.Equal(told, []int{0, 1, 2, 3}) {
		t.Errorf("told: %v", told)
	}
}
