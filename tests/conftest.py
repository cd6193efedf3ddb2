"""What holds for every test."""

from hypothesis import settings

# A machine that is busy is no failure: how long an example takes is not what the properties are about.
settings.register_profile("harrow", deadline=None)
settings.load_profile("harrow")
