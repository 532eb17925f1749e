package history

import "slices"

// Verifiable returns the revision up to which Check verifies a history. That is its end, unless events are missing for a good reason: if the history was
// cut, or servers prune it and all watches were refused the same changes. Check then verifies the part before the first change that may be missing.
func Verifiable(h *History) int64 {
	if h.Age == 0 && !h.Cut {
		return h.End
	}
	end := h.covered()
	if !h.Cut {
		end = min(end, h.End)
	}
	return end
}

// covered is the revision up to which the watches that see everything leave no gap between them.
func (h *History) covered() int64 {
	type span struct{ after, upTo int64 }
	var spans []span
	for i := range h.Watches {
		w := &h.Watches[i]
		from, marked := 0, span{after: w.At}
		if w.Initial {
			from = 1 + slices.IndexFunc(w.Events, func(e Event) bool { return e.InitialEnd })
			if from > 0 {
				marked.after = w.Events[from-1].Object.Revision
			}
		}
		if w.Select != "" || w.Initial && from == 0 || !w.Initial && w.Match != Exact || marked.after < h.Start {
			continue
		}
		marked.upTo = marked.after
		for _, e := range w.Events[from:] {
			marked.upTo = max(marked.upTo, e.Object.Revision)
		}
		spans = append(spans, marked)
	}
	slices.SortFunc(spans, func(a, b span) int { return int(a.after - b.after) })
	end := h.Start
	for _, s := range spans {
		if s.after > end {
			break
		}
		end = max(end, s.upTo)
	}
	return end
}

// prefix is the part of a history that can be verified, as if the clients had ended then. Everything that was answered before the next change was made
// is part of it, and so is what shows an earlier revision. Other reads are left out, and other writes become writes without an answer.
func (h *History) prefix() *History {
	end := Verifiable(h)
	if end == h.End {
		return h
	}
	part := *h
	part.End, part.Operations, part.Watches = end, nil, nil
	later := h.bounds().of(end + 1)
	for _, o := range h.Operations {
		if o.Return >= later && !o.shows(end) {
			if !o.writes() {
				continue
			}
			o.Code, o.Reason, o.Object = 0, "", nil
		}
		part.Operations = append(part.Operations, o)
	}
	for _, w := range h.Watches {
		if w.Match != Exact || w.Initial { // it begins with a state, which may be a later one
			mark := slices.IndexFunc(w.Events, func(e Event) bool { return e.InitialEnd })
			if len(w.Events) == 0 || w.Events[0].Time >= later || mark >= 0 && w.Events[mark].Object.Revision > end {
				continue
			}
		}
		w.Complete = false
		part.Watches = append(part.Watches, w)
	}
	return &part
}

// shows says whether an operation was answered with a revision up to end.
func (o *Operation) shows(end int64) bool {
	switch {
	case o.Kind == List && o.Match == Exact:
		return o.At <= end
	case o.Kind == List:
		return len(o.Pages) > 0 && o.Pages[0].Code == 200 && o.Pages[0].Revision <= end
	default:
		return o.Kind != Delete && o.done() && o.Object != nil && o.Object.Revision <= end
	}
}
