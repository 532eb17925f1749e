package main

import "strconv"

// counted is a number with the noun that it counts: "1 row", "2 rows". Whose plural has more to it than an s says it.
func counted[N int | int64](n N, one string, many ...string) string {
	return strconv.FormatInt(int64(n), 10) + " " + noun(n, one, many...)
}

// noun is what counted says after the number.
func noun[N int | int64](n N, one string, many ...string) string {
	switch {
	case n == 1:
		return one
	case len(many) > 0:
		return many[0]
	}
	return one + "s"
}
