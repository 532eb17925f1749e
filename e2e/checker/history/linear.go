package history

import (
	"fmt"
	"slices"
	"time"

	"github.com/anishathalye/porcupine"
)

// linearTimeout limits the check of one object's history. A history that takes longer is undecided and reported as a violation, so that nobody takes
// it for a proof.
const linearTimeout = 5 * time.Minute

// state is the model's state of an object.
type state struct {
	exists   bool
	revision int64 // of the last write, deletions excepted: their answers do not have it
	uid      string
	value    string
	color    string
}

// answer is the answer to a read or a write.
type answer struct {
	code     int
	revision int64
	uid      string
	value    string
	color    string
}

// checkLinearizable gives porcupine the history of each object: writes, gets, and lists at most recent as reads of each object. A write without an
// answer is included if it has happened, from its call until a client saw it.
func (c *checker) checkLinearizable() {
	for name, operations := range c.byName() {
		c.linearizable(name, operations)
	}
}

func (c *checker) linearizable(name string, operations []porcupine.Operation) {
	result, info := porcupine.CheckOperationsVerbose(c.model(name), operations, linearTimeout)
	if result == porcupine.Ok {
		return
	}
	slices.SortFunc(operations, func(a, b porcupine.Operation) int { return int(a.Call - b.Call) })
	if result == porcupine.Unknown {
		c.violate(RuleLinearizable, nil, "%s: not decided within %v", name, linearTimeout)
		return
	}
	// The longest order that porcupine found ends before the impossible operation.
	longest := 0
	for _, partial := range info.PartialLinearizations()[0] {
		longest = max(longest, len(partial))
	}
	from, to := max(0, longest-8), min(len(operations), longest+8)
	var evidence []string
	for _, o := range operations[from:to] {
		evidence = append(evidence, o.Input.(*Operation).String())
	}
	c.violate(RuleLinearizable, evidence, "%s: %d of %d operations can be put in order; near the first that cannot:", name, longest, len(operations))
}

// byName returns the operations on each object.
func (c *checker) byName() map[string][]porcupine.Operation {
	all := map[string][]porcupine.Operation{}
	add := func(o *Operation, name string, call, end int64, out answer) {
		all[name] = append(all[name], porcupine.Operation{ClientId: max(o.Client, 0), Input: o, Call: call, Output: out, Return: end})
	}
	for i := range c.history.Operations {
		o := &c.history.Operations[i]
		if name := o.Name; name != "" && all[name] == nil {
			all[name] = []porcupine.Operation{}
		}
		switch {
		case o.Kind == Get && o.Match == MostRecent, o.writes() && !o.unknown():
			if out, ok := answered(o); ok {
				add(o, o.Name, o.Call, o.Return, out)
			}
		case o.writes() && c.fate[i].happened:
			version, _ := c.log.latest(o.Name, c.fate[i].revision)
			code := 200
			if version.Type == Added {
				code = 201
			}
			add(o, o.Name, o.Call, max(o.Call, c.fate[i].seen), shown(code, &version.Object))
		}
	}
	for i := range c.deletions {
		o := &c.deletions[i]
		add(o, o.Name, o.Call, o.Return, shown(200, o.Object))
	}
	names := make([]string, 0, len(all))
	for name := range all {
		names = append(names, name)
	}
	for i := range c.history.Operations {
		if o := &c.history.Operations[i]; o.Kind == List && o.Match == MostRecent && whole(o) {
			c.addList(o, names, add)
		}
	}
	return all
}

// whole says whether all pages of a list are there.
func whole(o *Operation) bool {
	if len(o.Pages) == 0 {
		return false
	}
	last := o.Pages[len(o.Pages)-1]
	return last.Code == 200 && !last.More
}

// addList adds a list as a read of each object. The first page determines the revision of all.
func (c *checker) addList(o *Operation, names []string, add func(*Operation, string, int64, int64, answer)) {
	items := map[string]answer{}
	for _, p := range o.Pages {
		for i := range p.Items {
			items[p.Items[i].Name] = shown(200, &p.Items[i])
		}
	}
	for _, name := range names {
		out, listed := items[name]
		if !listed {
			out = answer{code: 404}
		}
		add(o, name, o.Call, o.Pages[0].Return, out)
	}
}

func shown(code int, o *Object) answer {
	return answer{code: code, revision: o.Revision, uid: o.UID, value: o.Value, color: o.Color}
}

// answered returns the answer of a get or a write, if it proves anything.
func answered(o *Operation) (answer, bool) {
	switch {
	case o.done() && o.Object != nil:
		return shown(o.Code, o.Object), true
	case o.Code == 404, o.Code == 409:
		return answer{code: o.Code}, true
	default:
		return answer{}, false
	}
}

func (c *checker) model(name string) porcupine.Model {
	var begin state
	if o := c.log.object(name, c.history.Start); o != nil {
		begin = state{exists: true, revision: o.Revision, uid: o.UID, value: o.Value, color: o.Color}
	}
	return porcupine.Model{
		Init: func() any { return begin },
		Step: func(s, input, output any) (bool, any) {
			return step(s.(state), input.(*Operation), output.(answer))
		},
		Equal:             func(a, b any) bool { return a == b },
		DescribeOperation: func(input, _ any) string { return input.(*Operation).String() },
		DescribeState:     func(s any) string { return fmt.Sprintf("%+v", s) },
	}
}

// step returns whether an operation can have this answer in a state, and the state afterwards.
func step(s state, o *Operation, out answer) (bool, state) {
	same := s.exists && s.revision == out.revision && s.uid == out.uid && s.value == out.value && s.color == out.color
	switch {
	case o.Kind == Get && out.code == 200, o.Kind == List && out.code == 200:
		return same, s
	case o.Kind == List && o.Select != "":
		return !s.exists || !matches(s.color, o.Select), s
	case out.code == 404:
		return !s.exists && o.Kind != Create && o.Kind != Apply, s
	case out.code == 409:
		return refusable(s, o), s
	}
	// A write that succeeded.
	if o.IfRevision != 0 && (!s.exists || o.IfRevision != s.revision) || o.IfUID != "" && (!s.exists || o.IfUID != s.uid) {
		return false, s
	}
	if o.Kind == Delete {
		return s.exists && s.uid == out.uid, state{revision: s.revision}
	}
	makes := o.Kind == Create || o.Kind == Apply && !s.exists
	if makes == s.exists || !makes && out.uid != s.uid || out.revision <= s.revision || makes != (out.code == 201) {
		return false, s
	}
	return true, state{exists: true, revision: out.revision, uid: out.uid, value: out.value, color: out.color}
}

// refusable returns whether a conflict can be the answer: another client wrote first.
func refusable(s state, o *Operation) bool {
	if o.Kind == Create {
		return s.exists
	}
	return s.exists && (o.IfRevision != 0 && o.IfRevision != s.revision || o.IfUID != "" && o.IfUID != s.uid)
}
