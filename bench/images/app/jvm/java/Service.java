// SPDX-License-Identifier: Apache-2.0
// A small service on Jetty that answers in JSON.
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.IOException;
import java.util.Map;
import java.util.TreeMap;
import javax.servlet.http.HttpServlet;
import javax.servlet.http.HttpServletRequest;
import javax.servlet.http.HttpServletResponse;
import org.eclipse.jetty.server.Server;
import org.eclipse.jetty.servlet.ServletContextHandler;
import org.eclipse.jetty.servlet.ServletHolder;

public class Service {
	public static class Status extends HttpServlet {
		private final ObjectMapper mapper = new ObjectMapper();

		@Override
		protected void doGet(HttpServletRequest request, HttpServletResponse response)
				throws IOException {
			Map<String, Object> status = new TreeMap<>();
			status.put("version", Version.NUMBER);
			status.put("path", request.getRequestURI());
			response.setContentType("application/json");
			mapper.writerWithDefaultPrettyPrinter().writeValue(response.getOutputStream(), status);
		}
	}

	public static void main(String[] args) throws Exception {
		Server server = new Server(8080);
		ServletContextHandler handler = new ServletContextHandler();
		handler.addServlet(new ServletHolder(new Status()), "/status");
		server.setHandler(handler);
		server.start();
		server.join();
	}
}
