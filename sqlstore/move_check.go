package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
)

// MovePlan is what a Move would do.
type MovePlan struct {
	Revision int64          // of the state of the source that was looked at
	Objects  map[string]int // how many there are of each resource
	Seen     int64          // the revision of the source that the target has, 0 while it has none
	History  bool           // the source has an object history, which stays there
}

// CheckMove says what OpenMove and Switch would do, and begins nothing. Errors: as of OpenMove; with one that is about the target, the plan is whole but for Seen.
func CheckMove(ctx context.Context, from, to Options) (plan MovePlan, err error) {
	plan.Objects = map[string]int{}
	name, history, err := checkMoveSource(ctx, &from, &to, func(s *Source) error {
		plan.Revision = s.State().Revision
		return s.count(ctx, plan.Objects)
	})
	plan.History = history
	if err != nil {
		return plan, err
	}
	if err = CheckTarget(ctx, to); errors.Is(err, ErrMoving) {
		plan.Seen, err = begunMove(ctx, &to, name)
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

// begunMove says how far a Move of the source has come that has not ended.
func begunMove(ctx context.Context, to *Options, source string) (seen int64, err error) {
	t := &moveTarget{source: source, schema: to.Schema}
	err = t.open(ctx, to, func(ctx context.Context, tx *sql.Tx) error {
		_, err := t.begun(ctx, tx)
		return err
	})
	if err != nil {
		return 0, err // open has let go of it
	}
	return t.seen, t.close()
}
