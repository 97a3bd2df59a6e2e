package delta;

import java.lang.reflect.Field;
import java.lang.reflect.InvocationHandler;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.lang.reflect.Proxy;
import java.net.SocketException;
import java.util.ArrayDeque;
import java.util.List;
import py4j.ClientServerConnection;
import py4j.GatewayServer;
import py4j.PythonClient;

/**
 * The {@link Python} that Java calls: a proxy that pools the py4j connections of JVM threads. Each connection has its own thread in Python.
 * py4j opens one for each JVM thread that calls Python and never closes it; here a thread has a connection only during a call. So there are
 * as many connections as concurrent calls, and a few idle ones.
 */
public class Connections implements InvocationHandler {
  /** The number of concurrent calls in an ordinary program. Each idle connection costs a thread and a file descriptor on both sides. */
  private static final int IDLE_MAX = 8;

  private final Python python;
  private final GatewayServer server;
  private final ArrayDeque idle = new ArrayDeque();
  /** The py4j client that opened the idle connections. py4j creates another one when Python's callback server changes its port. */
  private PythonClient owner;

  private Connections(Python python, GatewayServer server) {
    this.python = python;
    this.server = server;
  }

  /** A proxy for {@code python} that pools the connections of {@code server}. */
  static Python shared(Python python, GatewayServer server) {
    return (Python) Proxy.newProxyInstance(
        Connections.class.getClassLoader(), new Class[] {Python.class}, new Connections(python, server));
  }

  public Object invoke(Object proxy, Method method, Object[] arguments) throws Throwable {
    if (!(server.getCallbackClient() instanceof PythonClient)) return ask(method, arguments);  // a client that pools connections itself
    PythonClient client = (PythonClient) server.getCallbackClient();
    if (isOpen(client.getPerThreadConnection())) return ask(method, arguments);
    ClientServerConnection pythons = ofPythonsThread();
    if (pythons != null) {
      client.setPerThreadConnection(undelayed(pythons));
      return ask(method, arguments);
    }
    client.setPerThreadConnection(taken(client));  // if null, py4j opens one
    try {
      return ask(method, arguments);
    } finally {
      ClientServerConnection used = client.getPerThreadConnection();
      client.setPerThreadConnection(null);
      giveBack(client, used);
    }
  }

  private Object ask(Method method, Object[] arguments) throws Throwable {
    try {
      return method.invoke(python, arguments);
    } catch (InvocationTargetException error) {
      throw error.getCause();
    }
  }

  private synchronized ClientServerConnection taken(PythonClient client) {
    if (client != owner) {
      while (!idle.isEmpty()) close(owner, (ClientServerConnection) idle.pop());
      owner = client;
    }
    while (!idle.isEmpty()) {
      ClientServerConnection connection = (ClientServerConnection) idle.pop();
      if (isOpen(connection)) return connection;
    }
    return null;
  }

  private synchronized void giveBack(PythonClient client, ClientServerConnection connection) {
    if (connection == null) return;
    if (isOpen(connection) && client == owner && idle.size() < IDLE_MAX) idle.push(undelayed(connection));
    else close(client, connection);
  }

  private static void close(PythonClient client, ClientServerConnection connection) {
    client.connectionStopped(connection);
    if (isOpen(connection)) connection.shutdown();
  }

  /**
   * Makes a connection send at once. py4j writes a message of more than 8 KB in pieces; the second one would wait for Python's system to
   * confirm the first, which it does after 40 ms.
   */
  private static ClientServerConnection undelayed(ClientServerConnection connection) {
    try {
      connection.getSocket().setTcpNoDelay(true);
    } catch (SocketException error) {  // it is closed, which the call will find
      return connection;
    }
    return connection;
  }

  private static boolean isOpen(ClientServerConnection connection) { return connection != null && connection.getSocket() != null; }

  /**
   * The connection over which a Python thread has called this thread and waits for the result; null if no Python thread has. A call over it
   * runs in the waiting Python thread, which may be the main thread, where Python handles signals. py4j itself does not find the connection
   * if it is older than the current port of the callback server.
   */
  private ClientServerConnection ofPythonsThread() {
    try {
      List all = (List) field(GatewayServer.class, "connections").get(server);
      Field thread = field(ClientServerConnection.class, "jvmThread");
      synchronized (all) {
        for (int i = 0; i < all.size(); i++) {
          Object connection = all.get(i);
          if (connection instanceof ClientServerConnection && thread.get(connection) == Thread.currentThread()) {
            return isOpen((ClientServerConnection) connection) ? (ClientServerConnection) connection : null;
          }
        }
      }
    } catch (ReflectiveOperationException error) {  // another version of py4j without these fields: use any connection
      return null;
    }
    return null;
  }

  private static Field field(Class holder, String name) throws ReflectiveOperationException {
    Field field = holder.getDeclaredField(name);
    field.setAccessible(true);
    return field;
  }
}
