package builtin

import (
	"context"
	"encoding/binary"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
)

// Bounds of a comparison of rules. Roles in practice have up to some thousand combinations and take less than a millisecond.
const (
	maxUncovered     = 10_000
	maxUncoveredText = 1 << 20
	maxCoverageSteps = 50_000_000 // about half a second
	maxCoverageKnown = 4 << 20    // bytes
)

// coverage compares rules with those that a user has. Its answers are those of upstream's Covers
// (k8s.io/component-helpers/auth/rbac/validation): each combination of a group, a resource, a verb and a name, or of a path and a verb,
// has to be covered by one rule of the user. It keeps only combinations that are not covered. Which combinations with a given beginning
// are covered depends only on the user's rules that cover this beginning, so beginnings with the same rules are examined once.
type coverage struct {
	ctx context.Context
	// groups, resources, verbs and names index the user's rules by what they list; nameless are the rules for objects of any name.
	groups, resources, verbs, names map[string][]int32
	nameless                        []int32
	paths                           []ownedPath

	uncovered []rbacv1.PolicyRule
	text      int
	steps     int
	// stopped: a bound was reached or ctx has ended, and uncovered may lack some.
	stopped bool

	// covered holds the beginnings of the present rule that have no uncovered combination, by the user's rules that cover them.
	covered     map[string]bool
	coveredSize int
	// left holds the user's rules that cover the beginning, by its length.
	left [4][]int32
	key  []byte
	// marks tells which of the user's rules are in a set: those marked with the number of the set.
	marks []int
	sets  int
}

// ownedPath is a path of a user's rule, which may end with "*".
type ownedPath struct {
	path string
	rule int32
}

func newCoverage(ctx context.Context, owner []rbacv1.PolicyRule) *coverage {
	c := &coverage{ctx: ctx, groups: map[string][]int32{}, resources: map[string][]int32{}, verbs: map[string][]int32{},
		names: map[string][]int32{}, covered: map[string]bool{}, marks: make([]int, len(owner))}
	for i := range owner {
		r, at := &owner[i], int32(i)
		index(c.groups, r.APIGroups, at)
		index(c.resources, r.Resources, at)
		index(c.verbs, r.Verbs, at)
		index(c.names, r.ResourceNames, at)
		if len(r.ResourceNames) == 0 {
			c.nameless = append(c.nameless, at)
		}
		for _, path := range r.NonResourceURLs {
			c.paths = append(c.paths, ownedPath{path, at})
		}
		c.step(1 + len(r.APIGroups) + len(r.Resources) + len(r.Verbs) + len(r.ResourceNames) + len(r.NonResourceURLs))
		if c.stopped {
			break // a user can have any number of rules, too
		}
	}
	return c
}

func index(by map[string][]int32, elements []string, rule int32) {
	for _, e := range elements {
		if of := by[e]; len(of) == 0 || of[len(of)-1] != rule {
			by[e] = append(of, rule)
		}
	}
}

// dimension is one list of a rule, and the user's rules that cover an element of it.
type dimension struct {
	elements []string
	covering func(element string) [3][]int32
}

// add examines a rule.
func (c *coverage) add(r *rbacv1.PolicyRule) {
	verbs := dimension{r.Verbs, func(e string) [3][]int32 { return [3][]int32{c.verbs[rbacv1.VerbAll], c.verbs[e]} }}
	nameless := dimension{[]string{""}, func(string) [3][]int32 { return [3][]int32{c.nameless} }}
	names := nameless
	if len(r.ResourceNames) > 0 {
		names = dimension{r.ResourceNames, func(e string) [3][]int32 { return [3][]int32{c.nameless, c.names[e]} }}
	}
	c.examine([]dimension{
		{r.APIGroups, func(e string) [3][]int32 { return [3][]int32{c.groups[rbacv1.APIGroupAll], c.groups[e]} }},
		{r.Resources, c.coveringResource}, verbs, names,
	}, func(of *[4]string) rbacv1.PolicyRule {
		one := rbacv1.PolicyRule{APIGroups: []string{of[0]}, Resources: []string{of[1]}, Verbs: []string{of[2]}}
		if len(r.ResourceNames) > 0 {
			one.ResourceNames = []string{of[3]}
		}
		return one
	})
	c.examine([]dimension{{r.NonResourceURLs, c.coveringPath}, verbs, nameless}, func(of *[4]string) rbacv1.PolicyRule {
		return rbacv1.PolicyRule{NonResourceURLs: []string{of[0]}, Verbs: []string{of[1]}}
	})
}

func (c *coverage) coveringResource(e string) [3][]int32 {
	of := [3][]int32{c.resources[rbacv1.ResourceAll], c.resources[e]}
	if _, sub, ok := strings.Cut(e, "/"); ok {
		of[2] = c.resources["*/"+sub]
	}
	return of
}

func (c *coverage) coveringPath(e string) (of [3][]int32) {
	for _, p := range c.paths {
		if p.path == e || strings.HasSuffix(p.path, "*") && strings.HasPrefix(e, strings.TrimRight(p.path, "*")) {
			of[0] = append(of[0], p.rule)
		}
	}
	c.step(len(c.paths) * (1 + len(e)>>6))
	return of
}

func (c *coverage) examine(dimensions []dimension, combination func(*[4]string) rbacv1.PolicyRule) {
	for _, d := range dimensions {
		if len(d.elements) == 0 {
			return // no combinations
		}
	}
	clear(c.covered)
	c.coveredSize = 0
	var of [4]string
	c.from(0, dimensions, &of, combination)
}

// from examines the combinations that begin with the elements of before the given dimension, and tells whether all are covered.
func (c *coverage) from(at int, dimensions []dimension, of *[4]string, combination func(*[4]string) rbacv1.PolicyRule) bool {
	all := true
	for _, of[at] = range dimensions[at].elements {
		c.narrow(at, dimensions[at].covering(of[at]))
		if c.stopped {
			return false
		}
		if at == len(dimensions)-1 {
			if len(c.left[at]) == 0 {
				all = false
				c.keep(combination(of), of)
			}
			continue
		}
		c.step(len(c.left[at]))
		c.key = append(c.key[:0], byte(at))
		for _, rule := range c.left[at] {
			c.key = binary.LittleEndian.AppendUint32(c.key, uint32(rule))
		}
		if c.covered[string(c.key)] {
			continue
		}
		key := ""
		if c.coveredSize += len(c.key); c.coveredSize < maxCoverageKnown {
			key = string(c.key)
		}
		if !c.from(at+1, dimensions, of, combination) {
			all = false
		} else if key != "" {
			c.covered[key] = true
		}
	}
	return all
}

// narrow sets the user's rules that cover a beginning: those that cover it without its last element, and this element.
func (c *coverage) narrow(at int, covering [3][]int32) {
	c.sets += 2
	before := c.sets - 1
	if at > 0 {
		for _, rule := range c.left[at-1] {
			c.marks[rule] = before
		}
		c.step(len(c.left[at-1]))
	}
	to := c.left[at][:0]
	for _, rules := range covering {
		for _, rule := range rules {
			if at == 0 && c.marks[rule] != c.sets || at > 0 && c.marks[rule] == before {
				c.marks[rule] = c.sets
				to = append(to, rule)
			}
		}
		c.step(1 + len(rules))
	}
	c.left[at] = to
}

func (c *coverage) keep(one rbacv1.PolicyRule, of *[4]string) {
	c.uncovered = append(c.uncovered, one)
	for _, e := range of {
		c.text += len(e)
	}
	c.stopped = c.stopped || len(c.uncovered) == maxUncovered || c.text > maxUncoveredText
}

func (c *coverage) step(n int) {
	before := c.steps
	if c.steps += n; c.steps > maxCoverageSteps || c.steps>>16 != before>>16 && c.ctx.Err() != nil {
		c.stopped = true
	}
}
