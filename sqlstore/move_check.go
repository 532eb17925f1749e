package sqlstore

import (
	"context"
	"errors"
	"fmt"
)

// MovePlan describes what a Move would do.
type MovePlan struct {
	Revision int64          // of the state of the source that was read
	Objects  map[string]int // number of objects of each resource
	Begun    bool           // the target was begun to be filled, and not examined: another process may be filling it now
	History  bool           // the source has an object history, which stays there
}

// CheckMove returns what OpenMove and Switch would do, and writes nothing. Errors: those of OpenMove, except for
// ErrNotEmpty if the target was begun to be filled from another source. After an error about the target, the plan is
// complete.
func CheckMove(ctx context.Context, from, to Options) (plan MovePlan, err error) {
	plan.Objects = map[string]int{}
	_, plan.History, err = checkMoveSource(ctx, &from, &to, func(s *Source) error {
		plan.Revision = s.State().Revision
		return s.count(ctx, plan.Objects)
	})
	if err != nil {
		return plan, err
	}
	err = CheckTarget(ctx, to)
	if plan.Begun = errors.Is(err, ErrMoving); plan.Begun {
		return plan, nil
	}
	if err == nil && isPostgres(to.URL) {
		err = mayMakeTables(ctx, &to) // also if others have made tables there: the move makes one of its own
	}
	if err != nil {
		err = fmt.Errorf("fill the database: %w", err)
	}
	return plan, err
}

// count counts the objects of each resource.
func (s *Source) count(ctx context.Context, objects map[string]int) (err error) {
	rows, err := s.tx.QueryContext(ctx, "SELECT resource, count(*) FROM objects GROUP BY resource")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
		var resource string
		var n int
		if err := rows.Scan(&resource, &n); err != nil {
			return err
		}
		objects[resource] = n
	}
	return rows.Err()
}
