package status

// OfRequest is an error caused by the request and not by the server, to which kube-apiserver nevertheless answers with 500 and without a reason.
// The response is the same; the log does not treat it as an error.
type OfRequest struct{ Err error }

func (e *OfRequest) Error() string { return e.Err.Error() }

// Unwrap returns the wrapped error.
func (e *OfRequest) Unwrap() error { return e.Err }
