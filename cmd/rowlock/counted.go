package main

import "strconv"

// counted returns a number with the noun that it counts: "1 row", "2 rows". many is the plural of a noun that needs more than an s.
func counted[N int | int64](n N, one string, many ...string) string {
	return strconv.FormatInt(int64(n), 10) + " " + noun(n, one, many...)
}

// noun returns the noun that belongs to a number.
func noun[N int | int64](n N, one string, many ...string) string {
	switch {
	case n == 1:
		return one
	case len(many) > 0:
		return many[0]
	}
	return one + "s"
}
