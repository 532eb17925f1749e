// Package follow tells of the changes of objects, in one goroutine, for as long as the server runs: it opens the watches,
// takes their events, begins anew where history was lost, and waits and goes on where the database does not answer. What works
// because objects changed is a Handler of it: the controllers, the chores of the control plane, the sources of aggregation, the views for SQL.
//
// A Handler hears of a change soon after the Commit. What a request decides by has to be as new as the writes that were acknowledged before
// the request came, and is brought there by whoever asks; so three places read for themselves:
//
//   - server/authz/feed.go: the indexes of RBAC and the graph of the Node authorizer, by cursors that are read when a request comes.
//   - resources/custom/definitions.go: the types of CustomResourceDefinitions, likewise.
//   - resources/admission/derived.go: webhooks and policies of admission, made again when Reader.Changed says that their types have changed.
//
// # Invariants
//
//   - At least once: each change of an object that is followed, after Begin, is observed. With Source.Existing, so is each
//     object that is there at Begin, as if it were created. A change is observed twice only where Begin comes in between.
//   - Order: the changes of one type, and so of one object, come in the order of their revisions. Those of several types
//     come nearly in it: what was committed before anything that a round told is told in the next round at the latest.
//   - Resync: when history no longer reaches back to where a watch is (*resources.ExpiredError, "410 Gone"), everything
//     begins anew with Begin, which says to forget: what was deleted meanwhile is not told. Nothing else leads to it but an
//     error that the contract of resources.Watch does not name. resources.ErrUnavailable does not: the same watches are
//     asked again after a pause, and nothing is told twice.
//   - Bounded memory: a cursor per watch, and a page of PageSize events. A slow Handler delays no other and no writer.
//   - Of one Catalog: with Source.Registry, Turn.Catalog is the Catalog whose types were followed in the round. The watch of
//     a type ends when a Catalog comes without it, after its last event was told; Run ends with its context, or the store.
package follow
