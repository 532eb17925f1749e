// Package follow delivers the changes of objects to a Handler, in one goroutine, for as long as the server runs: it opens the watches, takes
// their events, begins again where history was lost, and retries where the database does not answer. Handlers are the controllers, the chores
// of the control plane, the sources of aggregation, and the views for SQL.
//
// A Handler gets a change soon after the Commit. Data that a request is decided by has to be as new as the writes that were acknowledged
// before the request, so the request itself brings it up to date; therefore three places read without this package:
//
//   - server/authz/feed.go: the indexes of RBAC and the graph of the Node authorizer, by cursors that are read when a request comes.
//   - resources/custom/definitions.go: the types of CustomResourceDefinitions, likewise.
//   - resources/admission/derived.go: webhooks and policies of admission, computed again when Reader.Changed shows a change of their types.
//
// # Invariants
//
//   - At least once: each change of a followed object after Begin is observed. With Source.Existing, so is each object that exists
//     at Begin, as if it were created. A change is observed twice only if Begin comes in between.
//   - Order: the changes of one type, and so of one object, come in the order of their revisions. Those of several types come
//     nearly in it: a change that was committed before any change of a round comes in the next round at the latest.
//   - Resync: when history no longer reaches back to the position of a watch (*resources.ExpiredError, "410 Gone"), everything
//     begins again with Begin, which tells the Handler to forget: deletions from the meantime are not delivered. The only other
//     cause is an error that the contract of resources.Watch does not name. resources.ErrUnavailable is not one: the same watches
//     are read again after a pause, and no change is delivered twice.
//   - Bounded memory: a cursor per watch, and a page of PageSize events. A slow Handler delays no other Handler and no writer.
//   - One Catalog: with Source.Registry, Turn.Catalog is the Catalog whose types were followed in the round. The watch of a type
//     ends when a Catalog comes without it, after its last event was delivered; Run ends with its context, or the store.
package follow
