"""Translating as a service: requests from one asyncio process, searches in another one; no HTTP.

    service = Service(["en-de=runs/tiny"])
    service.launch()                       # the engine process loads while the rest of the program is imported
    await service.start()
    answers = await service.translate("en-de", [Ask("A dog runs.", options)], deadline=time.monotonic() + 10)
    await service.close(grace=10)

The front process (service.py) admits requests, shares equal work, caches answers and watches the engine processes
(supervisor.py, process.py).  An engine process (engine.py) queues sentences (waiting.py) and translates them with one
search thread per core (translating.py).  The front process never imports torch.

Level 9.  Read first: service.py, then engine.py.
"""
