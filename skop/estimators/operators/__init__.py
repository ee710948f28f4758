"""The operators: LaMO, GeoMaNO, MNO, AMO and their peers; each is parameters and the network that they describe."""

__all__: list[str] = []
