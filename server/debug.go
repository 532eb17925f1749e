package server

import (
	"context"
	"errors"
	"net/http"
	"net/http/pprof"

	"github.com/labstack/echo/v4"
)

// addDebug adds the paths below /debug, as kube-apiserver has them: Go's profiles, unless they are disabled, and the verbosity of the log.
func (s *Server) addDebug(e *echo.Echo) {
	if s.flows != nil {
		e.Any("/debug/api_priority_and_fairness/*", echo.WrapHandler(s.flows.dumps))
	}
	if !s.WithoutProfiling {
		s.addProfiles(e)
	}
}

// addProfiles adds no /debug/pprof/cmdline, which kube-apiserver has on its socket: the command line may contain the password of the database.
func (s *Server) addProfiles(e *echo.Echo) {
	e.Any("/debug/pprof", echo.WrapHandler(http.RedirectHandler("/debug/pprof/", http.StatusFound)))
	e.Any("/debug/pprof/*", echo.WrapHandler(http.HandlerFunc(pprof.Index)))
	e.Any("/debug/pprof/profile", echo.WrapHandler(http.HandlerFunc(pprof.Profile)))
	e.Any("/debug/pprof/symbol", echo.WrapHandler(http.HandlerFunc(pprof.Symbol)))
	e.Any("/debug/pprof/trace", echo.WrapHandler(http.HandlerFunc(pprof.Trace)))
	if s.SetVerbosity != nil {
		e.Any("/debug/flags", listFlags)
		e.Any("/debug/flags/*", listFlags)
		e.Any("/debug/flags/v", s.setVerbosity)
	}
}

// flagsPage is kube-apiserver's list of the flags that can be set at run time. There is one.
const flagsPage = "<html>\n<head>\n<title>/debug/flags/</title>\n</head>\n<body>\n/debug/flags/<br>\n<br>\nflags:<br>\n<table>\n<tr>v<br>\n</table>\n<br>\n" +
	"full flags configurable<br>\n</body>\n</html>\n"

func listFlags(c echo.Context) error { return c.HTML(http.StatusOK, flagsPage) }

// setVerbosity sets the log verbosity to the number in the body.
func (s *Server) setVerbosity(c echo.Context) error {
	noSniffing(c)
	text := func(code int, text string) error { return c.Blob(code, "text/plain", []byte(text)) }
	if c.Request().Method != http.MethodPut {
		return text(http.StatusNotAcceptable, "unsupported http method")
	}
	body, err := readBody(c, 100)
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return err
	case err != nil:
		return text(http.StatusBadRequest, "error reading request body: "+err.Error())
	}
	answer, err := s.SetVerbosity(string(body))
	if err != nil {
		return text(http.StatusBadRequest, err.Error())
	}
	return text(http.StatusOK, answer)
}
