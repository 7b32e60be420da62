"""What `make soak` complains of, and a short soak: the promises are kept, and it is seen when they are not."""



from tests.soak.judge import Request
from tests.soak.traffic import REQUESTS

NAMED = {request.name: request for request in REQUESTS}
ALICE, HEAD, LARGE = NAMED["alice, by query"], NAMED["alice, HEAD"], NAMED["large, by header"]
REFUSED, ELSEWHERE = NAMED["two sessions"], NAMED["elsewhere"]
DOWN = b'{"code":"storage_unavailable"}'


def answer(request: Request, body: bytes, status: str = "200 OK", **others: str | None) -> bytes:
    """Return an answer that is as it should be, but for the fields that are given; ``None`` is none."""
    fields = {name.replace("-", "_"): value for name, values in request.announces.items() for value in values[:1]}
    kind = "application/json" if status == "200 OK" else "application/problem+json"
    fields |= {"Content_Type": kind, "Content_Length": str(len(body))} | others
    lines = [f"{name.replace('_', '-')}: {value}" for name, value in fields.items() if value is not None]
    lines += [f"Link: {value}" for value in request.announces["Link"][1:]]
    return "\r\n".join([f"HTTP/1.1 {status}", *lines, "", ""]).encode() + body


def unavailable(request: Request, body: bytes = DOWN, **others: str | None) -> bytes:
    return answer(request, body, "503 Service Unavailable", **{"Retry_After": "30"} | others)
