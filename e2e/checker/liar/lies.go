package liar

import "github.com/rowlock/rowlock/e2e/checker/history"

// Lie is a way in which a server lies.
type Lie struct {
	// Name says what the server does.
	Name string
	// Rules lists rules of which the verifier has to find one broken.
	Rules []string

	// times is how often the lie is told. Once suffices where nothing else can explain the clients' answers. Whether a read was stale depends on the
	// answers that other clients had got before its request; the proxy sees only the ends of these.
	times int
	// twist gets each frame of a stream, and returns the frames for the client, and whether they are a lie.
	twist func(s *stream, f frame) (frames []frame, lied bool)
	// answer answers a request; nil: the server does.
	answer func(p *Proxy, c *call) (*answer, error)
}

// many lies about reads are detected, because hardly all of these reads can have been concurrent with the writes that they do not show.
const many = 20

// Lies are all of them.
func Lies() []Lie {
	gap := []string{history.RuleReliable, history.RuleResumable, history.RuleBookmarkable}
	stale := []string{history.RuleLinearizable, history.RuleRealTime}
	return []Lie{
		{"event lost", gap, 1, loseEvent, nil},
		{"selector's DELETED lost", gap, 1, loseLeaving, nil},
		{"event repeated", []string{history.RuleUnique}, 1, repeatEvent, nil},
		{"events swapped", []string{history.RuleOrdered}, 1, swapEvents, nil},
		{"event of another state", []string{history.RuleAtomic, history.RuleUniqueRV}, 1, changeEvent, nil},
		{"event of another type", []string{history.RuleAtomic, history.RuleUniqueRV}, 1, mistakeEvent, nil},
		{"bookmark too early", []string{history.RuleBookmarkable}, 1, hurryBookmark, nil},
		{"initial event lost", []string{history.RuleState}, 1, loseInitial, nil},
		{"event lost by all", []string{history.RuleDurable}, 1, hideEvent, hideWrite},

		{"stale get", stale, many, nil, staleGet},
		{"stale list", stale, many, nil, staleList},
		{"stale list, new revision", []string{history.RuleState}, 1, nil, renamedList},
		{"torn list", []string{history.RuleState}, 1, nil, tornList},
		{"list not exact", []string{history.RuleExact}, 1, nil, inexactList},
		{"list older", []string{history.RuleNotOlder}, 1, nil, olderList},
		{"page skips", []string{history.RuleState}, 1, nil, skipItem},
		{"page refused", []string{history.RuleHistory}, 1, nil, refusePage},

		{"acknowledged write lost", []string{history.RuleDurable}, 1, nil, loseWrite},
		{"acknowledged deletion lost", []string{history.RuleDurable, history.RuleLinearizable}, 1, nil, loseDeletion},
		{"precondition ignored", []string{history.RuleLinearizable}, 1, nil, ignorePrecondition},
		{"refused write happens", []string{history.RuleHonest}, 1, nil, writeRefused},
		{"created over another", []string{history.RuleUniqueRV, history.RuleLinearizable}, 1, nil, createOver},
		{"write happens twice", []string{history.RuleDurable}, 1, nil, writeAgain},
		{"rv given twice", []string{history.RuleUniqueRV, history.RuleDurable}, 1, nil, repeatRevision},
	}
}
