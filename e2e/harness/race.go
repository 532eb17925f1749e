//go:build race

package harness

const race = true
