"""Why a request is not answered; `status` is the HTTP status that says the same."""

from jumok.errors import JumokError


class ServiceError(JumokError):
    """A request that the service does not answer."""

    status = 503


class Overloaded(ServiceError):
    """Too much work is waiting; try again after `retry_after` seconds."""

    status = 429

    @property
    def retry_after(self) -> float:
        return float(self.values["retry_after"])


class Closing(Overloaded):
    """The service is shutting down and accepts nothing more."""

    status = 503


class DeadlineExceeded(ServiceError):
    """The deadline of the request passed before it was answered."""


class EngineLost(ServiceError):
    """The engine process died while it worked on the request; the same request may be sent again."""


class Poisoned(ServiceError):
    """The request was being worked on twice when an engine process died; it is refused for an hour."""

    status = 422


class TooLong(ServiceError):
    """A sentence that the model cannot read as a whole; nothing is ever cut."""

    status = 400


class UnknownModel(ServiceError):
    """No model has this name."""

    status = 404


class UnknownPair(ServiceError):
    """No model translates between these languages."""

    status = 400


class Refused(ServiceError):
    """The engine cannot do what is asked of this model; the message says why."""

    status = 400


class ModelRefused(JumokError):
    """A model that the engine process cannot load."""

    code = 65
