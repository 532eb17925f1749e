package history

import (
	"slices"
	"strings"
)

// checkReads requires that every list and get shows one state: that of its revision, which is one that the client may get.
func (c *checker) checkReads() {
	for i := range c.history.Operations {
		o := &c.history.Operations[i]
		switch {
		case c.oldList(o): // see checkLoss
		case o.Kind == List:
			c.checkList(o)
		case o.Kind == Get && o.Code == 200 && o.Object != nil:
			c.checkGet(o)
		case o.Kind == Get && o.Code == 404 && o.Match == NotOlder:
			c.checkMissing(o)
		}
	}
}

// checkList checks the pages of a list. Pages after a failed one are missing, and the rest is not required.
func (c *checker) checkList(o *Operation) {
	var items []Object
	evidence := []string{o.String()}
	for i, p := range o.Pages {
		if p.Code == 400 || p.Code == 410 && !c.pageMayBeRefused(o, i) {
			c.violate(RuleHistory, evidence, "page %d of a list was refused with %d", i+1, p.Code)
		}
		if p.Code != 200 {
			return
		}
		if p.Revision != o.Pages[0].Revision {
			c.violate(RuleState, evidence, "page %d of a list is of revision %d, the first of %d", i+1, p.Revision, o.Pages[0].Revision)
			return
		}
		// A list at resourceVersion=0 is served whole ("Retrieving large results sets in chunks").
		if o.Limit > 0 && o.Match != Any && len(p.Items) > o.Limit {
			c.violate(RuleState, evidence, "%d items on page %d of a list, at most %d were asked for", len(p.Items), i+1, o.Limit)
		}
		items = append(items, p.Items...)
		want := c.log.state(p.Revision, o.Select)
		if len(items) > len(want) || !p.More && len(items) != len(want) || !slices.Equal(items, want[:len(items)]) {
			c.violate(RuleState, append(evidence, "shown "+describe(items), "was   "+describe(want)),
				"a list up to page %d is not what was there at its revision %d", i+1, p.Revision)
			return
		}
		if p.Remaining >= 0 && p.Remaining != int64(len(want)-len(items)) {
			c.violate(RuleState, evidence, "%d items are left after page %d, %d were said", len(want)-len(items), i+1, p.Remaining)
		}
	}
	if len(o.Pages) > 0 {
		c.checkMatch(o, o.Pages[0].Revision)
	}
}

// checkMatch compares the revision of a list with the requested one.
func (c *checker) checkMatch(o *Operation, revision int64) {
	switch {
	case o.Match == Exact && revision != o.At:
		c.violate(RuleExact, []string{o.String()}, "a list is of revision %d, exactly %d was asked for", revision, o.At)
	case o.Match == NotOlder && revision < o.At:
		c.violate(RuleNotOlder, []string{o.String()}, "a list is of revision %d, not older than %d was asked for", revision, o.At)
	}
}

// checkGet requires an object as of a revision that is not older than the requested one.
func (c *checker) checkGet(o *Operation) {
	at, next := c.log.latest(o.Name, o.Object.Revision)
	if at == nil || at.Type == Deleted || at.Object != *o.Object {
		c.violate(RuleState, c.around(o), "%s was never so", o.Name)
		return
	}
	if o.Match == NotOlder && next != nil && next.Object.Revision <= o.At {
		c.violate(RuleNotOlder, append(c.around(o), next.String()), "a get not older than %d shows %s at revision %d, which was over at %d", o.At, o.Name,
			o.Object.Revision, next.Object.Revision)
	}
}

// checkMissing requires that an object that was not found did not exist at some revision from the requested one on.
func (c *checker) checkMissing(o *Operation) {
	if c.log.object(o.Name, o.At) == nil {
		return
	}
	for _, v := range c.log.versions[o.Name] {
		if v.Type == Deleted && v.Object.Revision > o.At {
			return
		}
	}
	c.violate(RuleNotOlder, c.around(o), "%s was not found, and was there from revision %d on", o.Name, o.At)
}

// around is an operation and the changes of its object.
func (c *checker) around(o *Operation) []string {
	evidence := []string{o.String()}
	var versions []string
	for _, v := range c.log.versions[o.Name] {
		versions = append(versions, v.Type+" "+v.Object.String())
	}
	return append(evidence, "the log: "+strings.Join(versions, ", "))
}
